// Runs Knative's own autoscaler (pkg/autoscaler/scaling, pkg/autoscaler/aggregation) step by step on the
// concurrency traces of standard input, with panic mode off, and writes what it wants at each step.
package main

import (
	"encoding/json"
	"log"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"knative.dev/serving/pkg/apis/autoscaling"
	"knative.dev/serving/pkg/autoscaler/aggregation"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/scaling"
)

// Panic begins where the panic window asks for this many times the ready pods: never.
const neverPanic = 1e9

type step struct {
	AtS         float64  `json:"at_s"`
	Concurrency *float64 `json:"concurrency"` // null: nothing is reported
	Ready       int      `json:"ready"`
}

type trace struct {
	Name        string  `json:"name"`
	WindowS     float64 `json:"window_s"`
	Target      float64 `json:"target"`
	MaxUpRate   float64 `json:"max_scale_up_rate"`
	MaxDownRate float64 `json:"max_scale_down_rate"`
	Steps       []step  `json:"steps"`
	Wanted      []*int  `json:"wanted"` // null: the scale is not valid
}

type pods struct{ ready int }

func (p *pods) ReadyCount() (int, error)    { return p.ready, nil }
func (p *pods) NotReadyCount() (int, error) { return 0, nil }

// As MetricCollector.StableAndPanicConcurrency, without its scraper's clock.
type buckets struct{ *aggregation.TimedFloat64Buckets }

func (b buckets) StableAndPanicConcurrency(_ types.NamespacedName, now time.Time) (float64, float64, error) {
	if b.IsEmpty(now) {
		return 0, 0, metrics.ErrNoData
	}
	average := b.WindowAverage(now)
	return average, average, nil
}

func (b buckets) StableAndPanicRPS(key types.NamespacedName, now time.Time) (float64, float64, error) {
	return b.StableAndPanicConcurrency(key, now)
}

func main() {
	var traces []trace
	if err := json.NewDecoder(os.Stdin).Decode(&traces); err != nil {
		log.Fatal(err)
	}
	for i := range traces {
		traces[i].Wanted = wanted(traces[i])
	}
	if err := json.NewEncoder(os.Stdout).Encode(traces); err != nil {
		log.Fatal(err)
	}
}

func wanted(of trace) []*int {
	window := time.Duration(of.WindowS * float64(time.Second))
	seen := buckets{aggregation.NewTimedFloat64Buckets(window, time.Second)}
	there := &pods{}
	scaler := scaling.New(*attribute.EmptySet(), noop.NewMeterProvider(), "default", of.Name, seen, there,
		&scaling.DeciderSpec{
			MaxScaleUpRate: of.MaxUpRate, MaxScaleDownRate: of.MaxDownRate,
			ScalingMetric: autoscaling.Concurrency, TargetValue: of.Target, TotalValue: of.Target,
			PanicThreshold: neverPanic, StableWindow: window, Reachable: true,
		})
	start := time.Unix(1_000_000_000, 0)
	var result []*int
	for _, step := range of.Steps {
		now := start.Add(time.Duration(step.AtS * float64(time.Second)))
		if step.Concurrency != nil {
			seen.Record(now, *step.Concurrency)
		}
		there.ready = step.Ready
		scale := scaler.Scale(zap.NewNop().Sugar(), now)
		if !scale.ScaleValid {
			result = append(result, nil)
			continue
		}
		count := int(scale.DesiredPodCount)
		result = append(result, &count)
	}
	return result
}
