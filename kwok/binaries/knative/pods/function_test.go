package main

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Two requests that need 1 s of CPU each, on half a core, the second 1 s later: the first has 0.5 s when the second
// comes, both get a quarter of a core for 2 s, and the second the half for its last 0.5 s.
func TestRequestsShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &function{cores: 0.5, at: began}
		f.timer = time.AfterFunc(math.MaxInt64, f.finish)
		first := f.add(1)
		time.Sleep(time.Second)
		second := f.add(1)
		<-first.done
		expect(t, time.Since(began), 3*time.Second)
		<-second.done
		expect(t, time.Since(began), 4*time.Second)
		if used, _ := f.usage(); math.Abs(used-2) > 1e-6 {
			t.Errorf("%v CPU seconds were used, not 2", used)
		}
		f.timer.Stop()
	})
}

func TestARequestUsesOneCoreAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &function{cores: 4, at: began}
		f.timer = time.AfterFunc(math.MaxInt64, f.finish)
		<-f.add(1).done
		expect(t, time.Since(began), time.Second)
		f.resize(0.25) // an in-place resize, with one request
		began = time.Now()
		<-f.add(1).done
		expect(t, time.Since(began), 4*time.Second)
		f.timer.Stop()
	})
}

func expect(t *testing.T, took, want time.Duration) {
	t.Helper()
	if (took - want).Abs() > time.Millisecond {
		t.Errorf("it took %v, not %v", took, want)
	}
}
