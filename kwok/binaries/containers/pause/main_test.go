package main

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestReapCollectsEveryEndedChild(t *testing.T) {
	for range 3 {
		if err := exec.Command("/bin/true").Start(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		reap()
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("a child was not collected within 10 s")
}
