package main

import (
	"net/http"
	"net/url"
	"testing"

	"knative.dev/networking/pkg/apis/networking/v1alpha1"
)

func backend(name string, percent int) v1alpha1.IngressBackendSplit {
	return v1alpha1.IngressBackendSplit{IngressBackend: v1alpha1.IngressBackend{ServiceName: name}, Percent: percent}
}

func path(prefix, tag, service string) v1alpha1.HTTPIngressPath {
	found := v1alpha1.HTTPIngressPath{Path: prefix, Splits: []v1alpha1.IngressBackendSplit{backend(service, 100)}}
	if tag != "" {
		found.Headers = map[string]v1alpha1.HeaderMatch{"Knative-Serving-Tag": {Exact: tag}}
	}
	return found
}

func TestTheMostSpecificPathIsTaken(t *testing.T) {
	paths := []v1alpha1.HTTPIngressPath{path("", "", "all"), path("", "blue", "tagged"), path("/shop", "", "shop")}
	for _, c := range []struct{ at, tag, service string }{
		{"/", "", "all"}, {"/", "blue", "tagged"}, {"/", "green", "all"}, {"/shop/1", "blue", "shop"},
	} {
		r := &http.Request{URL: &url.URL{Path: c.at}, Header: http.Header{"Knative-Serving-Tag": {c.tag}}}
		if found := match(paths, r); found == nil || found.Splits[0].ServiceName != c.service {
			t.Errorf("%s with tag %q: %v, want %s", c.at, c.tag, found, c.service)
		}
	}
	if found := match(paths[2:], &http.Request{URL: &url.URL{Path: "/"}}); found != nil {
		t.Errorf("no path fits, but %v is taken", found)
	}
}

func TestEachPercentileGoesToItsSplit(t *testing.T) {
	splits := []v1alpha1.IngressBackendSplit{backend("a", 10), backend("b", 0), backend("c", 90)}
	counted := map[string]int{}
	for percentile := range 100 {
		counted[draw(splits, percentile).ServiceName]++
	}
	if counted["a"] != 10 || counted["b"] != 0 || counted["c"] != 90 {
		t.Errorf("%v", counted)
	}
	if alone := draw([]v1alpha1.IngressBackendSplit{backend("a", 0)}, 99); alone.ServiceName != "a" {
		t.Errorf("one split alone: %v", alone)
	}
}
