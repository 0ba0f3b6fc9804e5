// function-server stands for a function on a real node: its service time, memory and concurrency are settings.
//
// It runs CONCURRENCY requests at once and queues the others first come first served, as the pods of the
// lab's function model do. A request beyond QUEUE waiting ones gets 503. A caller that hangs up frees its slot.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "function-server:", err)
		os.Exit(1)
	}
}

func run() error {
	settings, err := readSettings(os.Getenv)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: fmt.Sprintf(":%d", settings.Port), Handler: newFunction(settings).handler()}
	// As process 1 of a container it gets no signal that it did not ask for.
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-stop.Done():
	}
	// Requests that run are answered; the kubelet ends the wait with SIGKILL.
	if err := server.Shutdown(context.Background()); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
