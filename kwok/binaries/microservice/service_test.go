package main

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestARequestCallsAllStagesWithItsNumber(t *testing.T) {
	var numbers atomic.Value
	child := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		numbers.Store(request.Header.Get(numberHeader))
	}))
	defer child.Close()
	port := child.URL[strings.LastIndex(child.URL, ":")+1:]
	calls, err := readCalls(port + "@0;" + port)
	if err != nil {
		t.Fatal(err)
	}
	service := newService(Settings{Calls: calls, RequestKiB: 8, GarbageMiB: 1})
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if answer.Code != http.StatusOK || numbers.Load() != "1" {
		t.Errorf("answer %d, number %v, want 200 and 1", answer.Code, numbers.Load())
	}
}

func TestAFailedCallIsAnError(t *testing.T) {
	child := httptest.NewServer(http.NotFoundHandler())
	defer child.Close()
	service := newService(Settings{Calls: [][]Call{{{URL: child.URL, Share: 1}}}})
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if answer.Code != http.StatusBadGateway {
		t.Errorf("answer %d, want 502", answer.Code)
	}
}

func TestCPUTimeIsBurnt(t *testing.T) {
	runtime.LockOSThread() // or the two readings may be of two threads
	defer runtime.UnlockOSThread()
	before := threadTime()
	burn(20 * time.Millisecond)
	if used := threadTime() - before; used < 20*time.Millisecond {
		t.Errorf("the thread used %s, want 20ms or more", used)
	}
}

func TestASlowerMachineTakesLongerForTheSameWork(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, began := threadTime(), time.Now()
	burnSlowly(25*time.Millisecond, 0.5)
	if used := threadTime() - before; used < 25*time.Millisecond {
		t.Errorf("the thread used %s, want 25ms or more", used)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("it took %s, want 50ms or more", took)
	}
}

func TestARequestWaitsBeforeAndAfterItsWork(t *testing.T) {
	service, began := newService(Settings{WaitMilliseconds: 20}), time.Now()
	service.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("it took %s, want 20ms or more", took)
	}
}

func TestCallsAndPlansAreChecked(t *testing.T) {
	want := []Step{{0.5, 2 * time.Second}, {1.5, 100 * time.Millisecond}}
	if steps, err := readPlan("0.5@2,1.5@0.1"); err != nil || !reflect.DeepEqual(steps, want) {
		t.Errorf("%v, %v", steps, err)
	}
	for _, text := range []string{"x@1", "1", "1@0", "-1@1"} {
		if _, err := readPlan(text); err == nil {
			t.Errorf("%q is taken as a plan", text)
		}
	}
	for _, text := range []string{"x", "80@y", "99999"} {
		if _, err := readCalls(text); err == nil {
			t.Errorf("%q is taken as calls", text)
		}
	}
}

func TestGarbageIsGivenBackTogether(t *testing.T) {
	service := newService(Settings{RequestKiB: 512, GarbageMiB: 1})
	for _, want := range []int{1, 0, 1} {
		service.discard(hold(512 << 10))
		if len(service.garbage) != want {
			t.Errorf("%d requests' memory is kept, want %d", len(service.garbage), want)
		}
	}
}
