package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

const prefix = "surgekit_function_server_"

// Function serves requests: Concurrency at once, then Queue wait, the others get 503.
type Function struct {
	settings Settings
	slots    chan struct{} // nil: no limit
	memory   []byte

	running, waiting        atomic.Int64
	answered, refused, gone atomic.Int64
	servedNanoseconds       atomic.Int64
}

func newFunction(settings Settings) *Function {
	function := &Function{settings: settings, memory: make([]byte, settings.MemoryMiB<<20)}
	if settings.Concurrency > 0 {
		function.slots = make(chan struct{}, settings.Concurrency)
	}
	for at := 0; at < len(function.memory); at += 4096 {
		function.memory[at] = 1 // an untouched page is not held
	}
	return function
}

func (f *Function) handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("/", f.serve)
	routes.HandleFunc("/metrics", f.metrics)
	routes.HandleFunc("/healthz", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, "ok") })
	return routes
}

func (f *Function) serve(answer http.ResponseWriter, request *http.Request) {
	arrived := time.Now()
	refused, done := f.enter(request.Context())
	if refused {
		f.refused.Add(1)
		http.Error(answer, "the queue is full", http.StatusServiceUnavailable)
		return
	}
	if done == nil {
		f.gone.Add(1)
		return
	}
	started := time.Now()
	complete := f.run(request.Context())
	f.servedNanoseconds.Add(int64(time.Since(started)))
	done()
	if !complete {
		f.gone.Add(1)
		return
	}
	f.answered.Add(1)
	fmt.Fprintf(answer, "waited_ms=%d served_ms=%d\n", started.Sub(arrived).Milliseconds(), time.Since(started).Milliseconds())
}

// enter waits for a slot. It refuses when the queue is full, and returns no done when the caller hung up.
func (f *Function) enter(ctx context.Context) (refused bool, done func()) {
	leave := func() { f.running.Add(-1) }
	if f.slots != nil {
		select {
		case f.slots <- struct{}{}:
		default:
			defer f.waiting.Add(-1)
			if f.waiting.Add(1) > int64(f.settings.Queue) {
				return true, nil
			}
			select {
			case f.slots <- struct{}{}:
			case <-ctx.Done():
				return false, nil
			}
		}
		leave = func() { f.running.Add(-1); <-f.slots }
	}
	f.running.Add(1)
	return false, leave
}

// run takes the service time, and tells whether the caller stayed to the end.
func (f *Function) run(ctx context.Context) bool {
	if f.settings.CPUTime > 0 && !burn(ctx, f.settings.CPUTime) {
		return false
	}
	rest := time.NewTimer(f.settings.ServiceTime - f.settings.CPUTime)
	defer rest.Stop()
	select {
	case <-rest.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// burn uses one core until the thread has had `cost` of it: throttling makes that later.
func burn(ctx context.Context, cost time.Duration) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadTime() + cost; threadTime() < end; {
		if ctx.Err() != nil {
			return false
		}
		for i := range 10_000 {
			sink.Store(int64(i))
		}
	}
	return true
}

var sink atomic.Int64

func threadTime() time.Duration {
	var usage syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thread, &usage); err != nil {
		panic(err) // Linux has it since 2.6.26
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (f *Function) metrics(answer http.ResponseWriter, _ *http.Request) {
	answer.Header().Set("Content-Type", "text/plain; version=0.0.4")
	family := func(name, kind, help string) {
		fmt.Fprintf(answer, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, kind)
	}
	family("requests_total", "counter", "Requests by outcome; 499: the caller hung up.")
	fmt.Fprintf(answer, "%srequests_total{code=\"200\"} %d\n", prefix, f.answered.Load())
	fmt.Fprintf(answer, "%srequests_total{code=\"499\"} %d\n", prefix, f.gone.Load())
	fmt.Fprintf(answer, "%srequests_total{code=\"503\"} %d\n", prefix, f.refused.Load())
	family("served_seconds_total", "counter", "Time that requests ran, without their wait for a slot.")
	fmt.Fprintf(answer, "%sserved_seconds_total %g\n", prefix, time.Duration(f.servedNanoseconds.Load()).Seconds())
	family("requests_running", "gauge", "Requests that run now.")
	fmt.Fprintf(answer, "%srequests_running %d\n", prefix, f.running.Load())
	family("requests_waiting", "gauge", "Requests that wait for a slot.")
	fmt.Fprintf(answer, "%srequests_waiting %d\n", prefix, f.waiting.Load())
}
