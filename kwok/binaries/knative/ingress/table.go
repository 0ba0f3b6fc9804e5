package main

import (
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"knative.dev/networking/pkg/apis/networking/v1alpha1"
)

var everything = labels.Everything()

// Where a request goes, and what is changed on its way.
type choice struct {
	address, rewriteHost string
	headers              map[string]string
}

type table struct {
	mutex     sync.RWMutex
	rules     map[string][]v1alpha1.HTTPIngressPath // by host
	endpoints corelisters.EndpointsLister
	turns     sync.Map // of a Service: *atomic.Uint64
}

func newTable(endpoints corelisters.EndpointsLister) *table { return &table{endpoints: endpoints} }

func (t *table) setRules(rules map[string][]v1alpha1.HTTPIngressPath) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.rules = rules
}

// The endpoint for a request; nil and an HTTP status where there is none.
func (t *table) choose(r *http.Request) (*choice, int) {
	host := r.Host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	t.mutex.RLock()
	path := match(t.rules[host], r)
	t.mutex.RUnlock()
	if path == nil || len(path.Splits) == 0 {
		return nil, http.StatusNotFound
	}
	split := draw(path.Splits, rand.IntN(100))
	address := t.next(types.NamespacedName{Namespace: split.ServiceNamespace, Name: split.ServiceName})
	if address == "" {
		return nil, http.StatusServiceUnavailable
	}
	headers := map[string]string{}
	for _, added := range []map[string]string{path.AppendHeaders, split.AppendHeaders} {
		for key, value := range added {
			headers[key] = value
		}
	}
	return &choice{address, path.RewriteHost, headers}, http.StatusOK
}

// The most specific path: the longest prefix, then the most headers.
func match(paths []v1alpha1.HTTPIngressPath, r *http.Request) *v1alpha1.HTTPIngressPath {
	var best *v1alpha1.HTTPIngressPath
	for i := range paths {
		path := &paths[i]
		if !strings.HasPrefix(r.URL.Path, path.Path) || !headersMatch(path.Headers, r.Header) {
			continue
		}
		if best == nil || len(path.Path) > len(best.Path) ||
			(len(path.Path) == len(best.Path) && len(path.Headers) > len(best.Headers)) {
			best = path
		}
	}
	return best
}

func headersMatch(wanted map[string]v1alpha1.HeaderMatch, got http.Header) bool {
	for key, value := range wanted {
		if got.Get(key) != value.Exact {
			return false
		}
	}
	return true
}

// The split in which this percentile lies. One split alone may have no percentage.
func draw(splits []v1alpha1.IngressBackendSplit, percentile int) v1alpha1.IngressBackendSplit {
	for _, split := range splits {
		if percentile < split.Percent {
			return split
		}
		percentile -= split.Percent
	}
	return splits[len(splits)-1]
}

// The Service's endpoints in turn. Its Endpoints and not the slices, which are mirrored from them a moment later.
func (t *table) next(service types.NamespacedName) string {
	found, err := t.endpoints.Endpoints(service.Namespace).Get(service.Name)
	if err != nil {
		return ""
	}
	var addresses []string
	for _, subset := range found.Subsets {
		for _, port := range subset.Ports {
			if port.Name != "http" && port.Name != "http2" {
				continue
			}
			for _, address := range subset.Addresses {
				addresses = append(addresses, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	if len(addresses) == 0 {
		return ""
	}
	turn, _ := t.turns.LoadOrStore(service, &atomic.Uint64{})
	return addresses[turn.(*atomic.Uint64).Add(1)%uint64(len(addresses))]
}
