package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Each request has a number, which its calls carry on: all that is drawn depends on it, so that every way to
// set limits gets the same work.
const numberHeader = "X-Request-Number"

// Requests that use CPU at the same time. Each takes a thread of the kernel.
const workers = 8

// Settings of a service.
type Settings struct {
	CPUMicroseconds, Spread, Share  float64
	WaitMilliseconds                int
	BaseMiB, RequestKiB, GarbageMiB int
	Seed                            uint64
	Calls                           [][]Call // stages, one after the other
}

// Call is to another service, by a share of the requests.
type Call struct {
	URL   string
	Share float64
}

// Service answers requests.
type Service struct {
	settings Settings
	base     []byte
	working  chan struct{}
	client   http.Client
	received atomic.Uint64

	collecting sync.Mutex
	garbage    [][]byte
}

func newService(settings Settings) *Service {
	return &Service{
		settings: settings,
		base:     hold(settings.BaseMiB << 20),
		working:  make(chan struct{}, workers),
		client:   http.Client{Transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 256}},
	}
}

func (s *Service) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	number, err := strconv.ParseUint(request.Header.Get(numberHeader), 10, 64)
	if err != nil { // from outside
		number = s.received.Add(1)
	}
	draw := rand.New(rand.NewPCG(s.settings.Seed, number))
	memory := hold(s.settings.RequestKiB << 10)
	defer s.discard(memory)
	wait := time.Duration(s.settings.WaitMilliseconds) * time.Millisecond / 2
	time.Sleep(wait)
	s.working <- struct{}{}
	if cost := s.cost(draw); s.settings.Share > 0 && s.settings.Share < 1 {
		burnSlowly(cost, s.settings.Share)
	} else {
		burn(cost)
	}
	<-s.working
	time.Sleep(wait)
	for _, stage := range s.settings.Calls {
		if err := s.call(request.Context(), draw, stage, number); err != nil {
			http.Error(answer, err.Error(), http.StatusBadGateway)
			return
		}
	}
	fmt.Fprintln(answer, "ok")
}

// discard gives memory back together with that of other requests, as a garbage collector does: so what a
// service holds grows and falls, and not all services are at their peaks at the same time.
func (s *Service) discard(memory []byte) {
	s.collecting.Lock()
	s.garbage = append(s.garbage, memory)
	var garbage [][]byte
	if len(s.garbage)*len(memory) >= s.settings.GarbageMiB<<20 {
		garbage, s.garbage = s.garbage, nil
	}
	s.collecting.Unlock()
	for _, each := range garbage {
		release(each)
	}
}

// cost is drawn from a log-normal distribution with the mean of the settings.
func (s *Service) cost(draw *rand.Rand) time.Duration {
	spread := s.settings.Spread
	factor := math.Exp(draw.NormFloat64()*spread - spread*spread/2)
	return time.Duration(s.settings.CPUMicroseconds * factor * float64(time.Microsecond))
}

// call waits for all calls of a stage.
func (s *Service) call(ctx context.Context, draw *rand.Rand, stage []Call, number uint64) error {
	errors := make([]error, len(stage))
	var calls sync.WaitGroup
	for at, call := range stage {
		if draw.Float64() < call.Share {
			calls.Go(func() { errors[at] = s.get(ctx, call.URL, number) })
		}
	}
	calls.Wait()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) get(ctx context.Context, url string, number uint64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set(numberHeader, strconv.FormatUint(number, 10))
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

func readCalls(text string) ([][]Call, error) {
	var stages [][]Call
	for stage := range strings.SplitSeq(text, ";") {
		var calls []Call
		for word := range strings.SplitSeq(stage, ",") {
			if word == "" {
				continue
			}
			port, share, drawn := strings.Cut(word, "@")
			call := Call{URL: "http://127.0.0.1:" + port + "/", Share: 1}
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return nil, fmt.Errorf("calls: %q has no port", word)
			}
			if drawn {
				var err error
				if call.Share, err = strconv.ParseFloat(share, 64); err != nil {
					return nil, fmt.Errorf("calls: %q: %w", word, err)
				}
			}
			calls = append(calls, call)
		}
		stages = append(stages, calls)
	}
	return stages, nil
}

// hold takes memory from the kernel and not from Go's heap, so that release gives it back at once.
func hold(size int) []byte {
	if size == 0 {
		return nil
	}
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for at := 0; at < size; at += 4096 {
		memory[at] = 1 // an untouched page is not held
	}
	return memory
}

func release(memory []byte) {
	if memory != nil {
		_ = syscall.Munmap(memory)
	}
}

// burn uses one core until the thread has had `cost` of it: throttling makes that later.
func burn(cost time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadTime() + cost; threadTime() < end; {
		for i := range 1_000 {
			sink.Store(int64(i))
		}
	}
}

var sink atomic.Int64

func threadTime() time.Duration {
	const clock = 3 // CLOCK_THREAD_CPUTIME_ID; Go's syscall package has no clock_gettime
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(now.Nano())
}
