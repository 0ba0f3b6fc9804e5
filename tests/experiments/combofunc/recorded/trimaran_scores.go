// Records what Trimaran's real plugins answer, as JSON on standard output.
package main

import (
	"context"
	"encoding/json"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/paypal/load-watcher/pkg/watcher"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientcache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	pluginConfig "sigs.k8s.io/scheduler-plugins/apis/config"
	lvrb "sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	tlp "sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"
)

type targetCase struct {
	Target     int64    `json:"target_percent"`
	Multiplier float64  `json:"requests_multiplier"`
	Default    int64    `json:"best_effort_millicores"`
	Capacity   int64    `json:"capacity_millicores"`
	Load       float64  `json:"load_percent"`
	Pod        *int64   `json:"pod_millicores"`
	Before     int64    `json:"bound_before_window_end_s"` // below 0: after it
	Bound      []*int64 `json:"bound_millicores"`
	Score      int64    `json:"score"`
}

type riskCase struct {
	Margin       float64 `json:"margin"`
	Sensitivity  float64 `json:"sensitivity"`
	Cpu          int64   `json:"capacity_millicores"`
	Memory       int64   `json:"capacity_mebibytes"`
	CpuMean      float64 `json:"cpu_mean_percent"`
	CpuStd       float64 `json:"cpu_std_percent"`
	MemoryMean   float64 `json:"memory_mean_percent"`
	MemoryStd    float64 `json:"memory_std_percent"`
	PodCpu       int64   `json:"pod_millicores"`
	PodMebibytes int64   `json:"pod_mebibytes"`
	Score        int64   `json:"score"`
}

type handle struct {
	factory informers.SharedInformerFactory
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

type nodeInfo struct {
	fwk.NodeInfo
	node *v1.Node
}

func (n nodeInfo) Node() *v1.Node { return n.node }

type plugin interface {
	framework.ScorePlugin
}

func quantities(cpu, memory int64) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}

func podOf(name string, requests v1.ResourceList) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID, pod.Spec.NodeName = name, types.UID(name), "node-1"
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}
	return pod
}

func requested(cpu *int64) v1.ResourceList {
	if cpu == nil {
		return nil
	}
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(*cpu, resource.DecimalSI)}
}

// The score of the plugin that `make` makes, with load-watcher answering `response`.
func score(response watcher.WatcherMetrics, node, pod v1.ResourceList, bound []*int64,
	make func(pluginConfig.TrimaranSpec, framework.Handle) (framework.Plugin, error)) int64 {
	server := httptest.NewServer(http.HandlerFunc(func(resp http.ResponseWriter, req *http.Request) {
		bytes, _ := json.Marshal(response)
		_, _ = resp.Write(bytes)
	}))
	defer server.Close()
	factory := informers.NewSharedInformerFactory(nil, 0)
	made, err := make(pluginConfig.TrimaranSpec{WatcherAddress: server.URL}, handle{factory})
	if err != nil {
		panic(err)
	}
	for i, cpu := range bound {
		onAdd(made, podOf("bound-"+strconv.Itoa(i), requested(cpu)))
	}
	found := &v1.Node{}
	found.Name, found.Status.Capacity, found.Status.Allocatable = "node-1", node, node
	value, status := made.(plugin).Score(context.Background(), nil, podOf("p", pod), nodeInfo{node: found})
	if !status.IsSuccess() {
		panic(status)
	}
	return value
}

// The plugin's own handler of pods that are bound.
func onAdd(made framework.Plugin, pod *v1.Pod) {
	var handler clientcache.ResourceEventHandler = made.(*tlp.TargetLoadPacking).Handler()
	handler.OnAdd(pod, false)
}

func metrics(end int64, found ...watcher.Metric) watcher.WatcherMetrics {
	return watcher.WatcherMetrics{Window: watcher.Window{End: end}, Data: watcher.Data{
		NodeMetricsMap: map[string]watcher.NodeMetrics{"node-1": {Metrics: found}}}}
}

func main() {
	draw := rand.New(rand.NewSource(1))
	percent := func(most int) float64 { return float64(draw.Intn(most*100)) / 100 }
	cpu := func() *int64 {
		if draw.Intn(6) == 0 {
			return nil
		}
		millis := int64(draw.Intn(40) * 25)
		return &millis
	}
	targets, risks := []targetCase{}, []riskCase{}
	for i := 0; i < 150; i++ {
		c := targetCase{
			Target:     []int64{40, 60, 80}[draw.Intn(3)],
			Multiplier: []float64{1, 1.5, 2}[draw.Intn(3)],
			Default:    []int64{1000, 250}[draw.Intn(2)],
			Capacity:   int64(1000 * (1 + draw.Intn(8))),
			Load:       percent(105),
			Pod:        cpu(),
			// The plugin stamps a pod with the present, so one window end holds for all of a case.
			Before: []int64{-100, 0, 30, 55, 65, 300}[draw.Intn(6)],
			Bound:  []*int64{},
		}
		for j := draw.Intn(4); j > 0; j-- {
			c.Bound = append(c.Bound, cpu())
		}
		response := metrics(time.Now().Unix()+c.Before, watcher.Metric{Type: watcher.CPU, Value: c.Load, Operator: watcher.Latest})
		c.Score = score(response, quantities(c.Capacity, 1<<30), requested(c.Pod), c.Bound,
			func(spec pluginConfig.TrimaranSpec, h framework.Handle) (framework.Plugin, error) {
				var args runtime.Object = &pluginConfig.TargetLoadPackingArgs{
					TrimaranSpec: spec, TargetUtilization: c.Target,
					DefaultRequests:           quantities(c.Default, 0),
					DefaultRequestsMultiplier: strconv.FormatFloat(c.Multiplier, 'f', -1, 64),
				}
				return tlp.New(context.Background(), args, h)
			})
		targets = append(targets, c)
	}
	for i := 0; i < 150; i++ {
		c := riskCase{
			Margin:       []float64{1, 1, 3, 0.5}[draw.Intn(4)],
			Sensitivity:  []float64{1, 2, 0.5}[draw.Intn(3)],
			Cpu:          int64(1000 * (1 + draw.Intn(8))),
			Memory:       int64(1024 * (1 + draw.Intn(16))),
			CpuMean:      percent(105),
			CpuStd:       percent(50),
			MemoryMean:   percent(105),
			MemoryStd:    percent(30),
			PodCpu:       int64(draw.Intn(80) * 25),
			PodMebibytes: int64(draw.Intn(64) * 32),
		}
		response := metrics(0,
			watcher.Metric{Type: watcher.CPU, Value: c.CpuMean, Operator: watcher.Average},
			watcher.Metric{Type: watcher.CPU, Value: c.CpuStd, Operator: watcher.Std},
			watcher.Metric{Type: watcher.Memory, Value: c.MemoryMean, Operator: watcher.Average},
			watcher.Metric{Type: watcher.Memory, Value: c.MemoryStd, Operator: watcher.Std})
		c.Score = score(response, quantities(c.Cpu, c.Memory<<20), quantities(c.PodCpu, c.PodMebibytes<<20), nil,
			func(spec pluginConfig.TrimaranSpec, h framework.Handle) (framework.Plugin, error) {
				return lvrb.New(context.Background(), &pluginConfig.LoadVariationRiskBalancingArgs{
					TrimaranSpec: spec, SafeVarianceMargin: c.Margin, SafeVarianceSensitivity: c.Sensitivity}, h)
			})
		risks = append(risks, c)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"target_load_packing": targets, "risk_balancing": risks}); err != nil {
		panic(err)
	}
}
