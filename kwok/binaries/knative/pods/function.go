package main

import (
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	defaultService = 100 * time.Millisecond // of kwok/binaries/containers/function-server
	defaultMemory  = 32 << 20
)

var asked = regexp.MustCompile(`^/sleep/(\d{1,4}(?:\.\d{1,9})?)$`)

// Stands for the user's container. It reads the environment that the image function-server reads: a request takes
// SERVICE_TIME_MS, of which CPU_TIME_MS needs a core. /sleep/SECONDS says how long a request takes, without CPU.
// Requests share the container's CPU limit equally, and each uses one core at most (processor sharing).
type function struct {
	name, container string
	service, cpu    time.Duration
	memoryBytes     int64

	mutex      sync.Mutex
	cores      float64   // the limit in force; 0: none
	work       float64   // CPU seconds that each request got that was there all the time
	at         time.Time // when work was up to date
	due        []*job    // by the amount of work at which they are done
	timer      *time.Timer
	used       float64 // CPU seconds
	running    int
	mostAtOnce int
}

type job struct {
	work float64
	done chan struct{}
}

func newFunction(object *corev1.Pod) *function {
	container := userContainer(object)
	environment := environmentOf(object, container)
	milliseconds := func(key string, otherwise time.Duration) time.Duration {
		if value, err := strconv.ParseFloat(environment[key], 64); err == nil && value >= 0 && value < 1e7 {
			return time.Duration(value * float64(time.Millisecond))
		}
		return otherwise
	}
	f := &function{name: object.Name, container: container, at: time.Now(), memoryBytes: defaultMemory,
		service: milliseconds("SERVICE_TIME_MS", defaultService), cpu: milliseconds("CPU_TIME_MS", 0)}
	if mib, err := strconv.ParseInt(environment["MEMORY_MIB"], 10, 32); err == nil && mib > 0 {
		f.memoryBytes = mib << 20
	}
	f.timer = time.AfterFunc(math.MaxInt64, f.finish)
	return f
}

// Knative names it user-container unless the Service does.
func userContainer(object *corev1.Pod) string {
	for _, container := range object.Spec.Containers {
		if container.Name != "queue-proxy" {
			return container.Name
		}
	}
	return ""
}

// The CPU limit in force, in cores; 0 if there is none.
func cpuLimit(object *corev1.Pod) float64 {
	name := userContainer(object)
	for _, status := range object.Status.ContainerStatuses {
		if status.Name == name && status.Resources != nil {
			return status.Resources.Limits.Cpu().AsApproximateFloat64()
		}
	}
	for _, container := range object.Spec.Containers {
		if container.Name == name {
			return container.Resources.Limits.Cpu().AsApproximateFloat64()
		}
	}
	return 0
}

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	compute, wait := f.cpu, max(f.service-f.cpu, 0)
	if found := asked.FindStringSubmatch(r.URL.Path); found != nil {
		seconds, _ := strconv.ParseFloat(found[1], 64)
		compute, wait = 0, time.Duration(seconds*float64(time.Second))
	}
	f.enter(1)
	defer f.enter(-1)
	if compute > 0 {
		job := f.add(compute.Seconds())
		select {
		case <-job.done:
		case <-r.Context().Done():
			f.drop(job)
			return
		}
	}
	select {
	case <-time.After(wait):
		w.Write([]byte(f.name))
	case <-r.Context().Done():
	}
}

func (f *function) enter(change int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.running += change
	f.mostAtOnce = max(f.mostAtOnce, f.running)
}

func (f *function) add(work float64) *job {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.advance()
	added := &job{f.work + work, make(chan struct{})}
	at, _ := slices.BinarySearchFunc(f.due, added.work, func(j *job, w float64) int {
		if j.work <= w {
			return -1
		}
		return 1
	})
	f.due = slices.Insert(f.due, at, added)
	f.schedule()
	return added
}

func (f *function) drop(dropped *job) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.advance()
	f.due = slices.DeleteFunc(f.due, func(j *job) bool { return j == dropped })
	f.schedule()
}

func (f *function) resize(cores float64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.cores != cores {
		f.advance()
		f.cores = cores
		f.schedule()
	}
}

func (f *function) finish() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.advance()
	f.schedule()
}

// The speed of each request, in cores.
func (f *function) speed() float64 {
	if f.cores == 0 || len(f.due) == 0 {
		return 1
	}
	return min(1, f.cores/float64(len(f.due)))
}

func (f *function) advance() {
	now := time.Now()
	done := now.Sub(f.at).Seconds() * f.speed()
	f.work, f.used, f.at = f.work+done, f.used+done*float64(len(f.due)), now
	for len(f.due) > 0 && f.due[0].work <= f.work+1e-9 {
		close(f.due[0].done)
		f.due = f.due[1:]
	}
}

func (f *function) schedule() {
	f.timer.Stop()
	if len(f.due) > 0 {
		f.timer.Reset(time.Duration((f.due[0].work - f.work) / f.speed() * float64(time.Second)))
	}
}

func (f *function) usage() (float64, int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.advance()
	f.schedule()
	return f.used, f.mostAtOnce
}
