package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func call(function *Function, ctx context.Context, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	function.handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
	return answer
}

func TestRequestsBeyondTheConcurrencyWaitAndBeyondTheQueueAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		function := newFunction(Settings{ServiceTime: time.Second, Concurrency: 2, Queue: 2})
		started := time.Now()
		codes := make(chan int, 5)
		for range 5 {
			go func() { codes <- call(function, t.Context(), "/").Code }()
		}
		if code := <-codes; code != http.StatusServiceUnavailable || time.Since(started) != 0 {
			t.Errorf("the fifth request: %d after %s, want 503 at once", code, time.Since(started))
		}
		for i := range 4 {
			want := time.Duration(1+i/2) * time.Second
			if code := <-codes; code != http.StatusOK || time.Since(started) != want {
				t.Errorf("request %d: %d after %s, want 200 after %s", i, code, time.Since(started), want)
			}
		}
	})
}

func TestACallerThatHangsUpFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		function := newFunction(Settings{ServiceTime: time.Hour, Concurrency: 1, Queue: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range 2 { // one runs, one waits
			calls.Go(func() { call(function, ctx, "/") })
		}
		calls.Wait()
		said := call(function, t.Context(), "/metrics").Body.String()
		for _, line := range []string{`requests_total{code="499"} 2`, "requests_running 0", "requests_waiting 0"} {
			if !strings.Contains(said, prefix+line+"\n") {
				t.Errorf("no line %q in\n%s", line, said)
			}
		}
	})
}

func TestCPUTimeIsBurnt(t *testing.T) {
	runtime.LockOSThread() // or the two readings may be of two threads
	defer runtime.UnlockOSThread()
	before := threadTime()
	if !burn(t.Context(), 20*time.Millisecond) {
		t.Fatal("burn ended early")
	}
	if used := threadTime() - before; used < 20*time.Millisecond {
		t.Errorf("the thread used %s, want 20ms or more", used)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"PORT", "x", `PORT: "x" is not a whole number >= 0`},
		{"CONCURRENCY", "-1", `CONCURRENCY: "-1" is not a whole number >= 0`},
		{"CPU_TIME_MS", "101", "CPU_TIME_MS: 101 is more than SERVICE_TIME_MS: 100"},
	} {
		_, err := readSettings(func(key string) string { return map[string]string{test.key: test.value}[key] })
		if err == nil || err.Error() != test.want {
			t.Errorf("%s=%s: %v, want %s", test.key, test.value, err, test.want)
		}
	}
}
