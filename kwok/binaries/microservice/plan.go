package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Within a slice, a thread uses its share of CPU first and sleeps for the rest. What a slice could not have
// because of throttling is lost.
const slice = 10 * time.Millisecond

// Step is a level of CPU use.
type Step struct {
	Cores float64
	For   time.Duration
}

func readPlan(text string) ([]Step, error) {
	var steps []Step
	for word := range strings.SplitSeq(text, ",") {
		cores, seconds, found := strings.Cut(word, "@")
		level, err := strconv.ParseFloat(cores, 64)
		lasts, err2 := strconv.ParseFloat(seconds, 64)
		if !found || err != nil || err2 != nil || level < 0 || lasts <= 0 {
			return nil, fmt.Errorf("burn: %q is not cores@seconds", word)
		}
		steps = append(steps, Step{level, time.Duration(lasts * float64(time.Second))})
	}
	return steps, nil
}

// follow never ends.
func follow(steps []Step) {
	for until := time.Now(); ; {
		for _, step := range steps {
			until = until.Add(step.For)
			var threads sync.WaitGroup
			for left := step.Cores; left > 0; left-- {
				threads.Go(func() { burnShare(min(left, 1), until) })
			}
			threads.Wait()
			time.Sleep(time.Until(until))
		}
	}
}

func burnShare(share float64, until time.Time) {
	for time.Now().Before(until) {
		burnSlice(share, slice)
	}
}

// burnSlowly uses CPU time as a thread does on a machine that has only this share of our speed.
func burnSlowly(cost time.Duration, share float64) {
	for left := cost; left > 0; left -= time.Duration(share * float64(slice)) {
		burnSlice(share, left)
	}
}

// burnSlice uses a share of a slice, at most so much.
func burnSlice(share float64, most time.Duration) {
	began := time.Now()
	burn(min(time.Duration(share*float64(slice)), most))
	time.Sleep(time.Until(began.Add(slice)))
}
