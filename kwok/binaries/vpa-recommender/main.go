// Runs the Vertical Pod Autoscaler's own recommender (pkg/recommender/logic, pkg/recommender/model) on the samples
// of standard input, and answers each line with what it recommends. Metrics API, checkpoints and the API server
// are left out: they bring samples and take recommendations, and decide nothing.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"os"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

const mebibyte = 1 << 20

// sample is one look at all containers.
type sample struct {
	AtS       float64 `json:"at_s"`
	Container map[string]struct {
		Cores  float64 `json:"cores"`
		MiB    float64 `json:"mib"`
		Killed float64 `json:"killed_at_mib"` // the limit it was killed at; 0: it was not
	} `json:"containers"`
}

type recommendation struct {
	Cores float64 `json:"cores"`
	MiB   float64 `json:"mib"`
}

// container is the only one of its pod.
type container struct {
	total *model.AggregateContainerState
	state *model.ContainerState
}

func main() {
	halfLife := flag.Duration("half-life", model.DefaultCPUHistogramDecayHalfLife, "of a sample's weight, CPU and memory")
	flag.Parse()
	// The defaults, without the least recommendation for a pod (25 millicores and 250 MiB) and the least raise after
	// an OOM kill (100 MiB), which are larger than some containers here.
	model.InitializeAggregationsConfig(model.NewAggregationsConfig(
		model.DefaultMemoryAggregationInterval, model.DefaultMemoryAggregationIntervalCount,
		*halfLife, *halfLife, model.DefaultOOMBumpUpRatio, 0,
	))
	with := config.DefaultRecommenderConfig()
	recommender := logic.CreatePodResourceRecommender(logic.RecommendationConfig{
		SafetyMarginFraction: with.SafetyMarginFraction, PodMinCPUMillicores: 1, PodMinMemoryMb: 1,
		TargetCPUPercentile: with.TargetCPUPercentile, LowerBoundCPUPercentile: with.LowerBoundCPUPercentile,
		UpperBoundCPUPercentile: with.UpperBoundCPUPercentile, ConfidenceIntervalCPU: with.ConfidenceIntervalCPU,
		TargetMemoryPercentile: with.TargetMemoryPercentile, LowerBoundMemoryPercentile: with.LowerBoundMemoryPercentile,
		UpperBoundMemoryPercentile: with.UpperBoundMemoryPercentile, ConfidenceIntervalMemory: with.ConfidenceIntervalMemory,
	})
	answers, containers := json.NewEncoder(os.Stdout), map[string]container{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, mebibyte)
	for lines.Scan() {
		var seen sample
		if err := json.Unmarshal(lines.Bytes(), &seen); err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(recommend(recommender, containers, seen)); err != nil {
			log.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func recommend(with logic.PodResourceRecommender, containers map[string]container, seen sample) map[string]recommendation {
	now := time.Unix(1_000_000_000, 0).Add(time.Duration(seen.AtS * float64(time.Second)))
	wanted := map[string]recommendation{}
	for name, use := range seen.Container {
		known, found := containers[name]
		if !found {
			known.total = model.NewAggregateContainerState()
			known.state = model.NewContainerState(nil, known.total)
			containers[name] = known
		}
		known.state.AddSample(&model.ContainerUsageSample{
			MeasureStart: now, Usage: model.CPUAmountFromCores(use.Cores), Resource: model.ResourceCPU,
		})
		known.state.AddSample(&model.ContainerUsageSample{
			MeasureStart: now, Usage: model.MemoryAmountFromBytes(use.MiB * mebibyte), Resource: model.ResourceMemory,
		})
		if use.Killed > 0 {
			if err := known.state.RecordOOM(now, model.MemoryAmountFromBytes(use.Killed*mebibyte)); err != nil {
				log.Print(err)
			}
		}
		target := with.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{name: known.total})[name].Target
		wanted[name] = recommendation{
			model.CoresFromCPUAmount(target[model.ResourceCPU]),
			model.BytesFromMemoryAmount(target[model.ResourceMemory]) / mebibyte,
		}
	}
	return wanted
}
