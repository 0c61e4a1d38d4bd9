package sojournotel

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	sojourn "sojourn/middleware"
)

// sdk is a real SDK that keeps what it is sent.
type sdk struct {
	spans   *tracetest.SpanRecorder
	tracers *sdktrace.TracerProvider
	reader  *metric.ManualReader
	meters  *metric.MeterProvider
}

func newSDK() *sdk {
	s := &sdk{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	s.meters = metric.NewMeterProvider(metric.WithReader(s.reader))
	return s
}

// serve returns the response to a request behind the middleware with this SDK.
func (s *sdk) serve(r *http.Request, handler http.HandlerFunc, options ...sojourn.Option) *httptest.ResponseRecorder {
	observer := New(WithTracerProvider(s.tracers), WithMeterProvider(s.meters))
	w := httptest.NewRecorder()
	sojourn.New(append(options, sojourn.Observe(observer))...)(handler).ServeHTTP(w, r)
	return w
}

// span returns the only span that has ended.
func (s *sdk) span(t *testing.T) sdktrace.ReadOnlySpan {
	t.Helper()
	spans := s.spans.Ended()
	if len(spans) != 1 {
		t.Fatalf("%d spans, want 1", len(spans))
	}
	return spans[0]
}

// delays returns the data points of the histogram.
func (s *sdk) delays(t *testing.T) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	for _, scope := range data.ScopeMetrics {
		for _, one := range scope.Metrics {
			if one.Name == "queueing.delay" {
				if scope.Scope.Name != ScopeName || one.Unit != "s" {
					t.Errorf("scope %q, unit %q", scope.Scope.Name, one.Unit)
				}
				return one.Data.(metricdata.Histogram[float64]).DataPoints
			}
		}
	}
	return nil
}

// attributes returns attributes by name.
func attributes(list []attribute.KeyValue) map[string]any {
	values := map[string]any{}
	for _, one := range list {
		values[string(one.Key)] = one.Value.AsInterface()
	}
	return values
}

// wantAttributes fails the test unless the attributes are exactly those. A nil accepts any value.
func wantAttributes(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, value := range want {
		one, ok := got[name]
		if list, isList := one.([]string); isList {
			if wanted, _ := value.([]string); !slices.Equal(list, wanted) {
				t.Errorf("%s = %v, want %v", name, list, value)
			}
		} else if !ok || value != nil && one != value {
			t.Errorf("%s = %v, want %v", name, one, value)
		}
	}
	for name, value := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s = %v, want no such attribute", name, value)
		}
	}
}

func pid() string { return strconv.Itoa(os.Getpid()) }

// stamped returns a request with a stamp of that age, and the stamp.
func stamped(age time.Duration) (*http.Request, time.Time) {
	stamp := time.Now().Add(-age).Truncate(time.Microsecond)
	r := httptest.NewRequest("GET", "http://shop.example:8080/users/7?secret=1", nil)
	r.Header.Set("X-Request-Start", strconv.FormatInt(stamp.UnixMicro(), 10))
	return r, stamp
}

func TestStartsAServerSpan(t *testing.T) {
	s := newSDK()
	r, stamp := stamped(2 * time.Second)
	r.Header.Set("X-Request-Id", "4bf9")
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	var inside trace.SpanContext
	before := time.Now()
	w := s.serve(r, func(w http.ResponseWriter, r *http.Request) {
		inside = trace.SpanContextFromContext(r.Context())
		sojourn.SetRoute(r.Context(), "/users/{id}")
		r.Header.Del("X-Request-Id")
		w.WriteHeader(http.StatusCreated)
	}, sojourn.ClockOffset(500*time.Millisecond))

	span := s.span(t)
	if span.Name() != "GET /users/{id}" || span.SpanKind() != trace.SpanKindServer {
		t.Errorf("span %q of kind %v", span.Name(), span.SpanKind())
	}
	if parent := span.Parent(); parent.SpanID().String() != "00f067aa0ba902b7" || !parent.IsRemote() ||
		parent.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("parent %v", parent)
	}
	if inside.SpanID() != span.SpanContext().SpanID() {
		t.Errorf("the current span of the handler is %v, want %v", inside.SpanID(), span.SpanContext().SpanID())
	}
	if span.StartTime().Before(before) || span.EndTime().Before(span.StartTime()) || span.EndTime().After(time.Now()) {
		t.Errorf("from %v to %v", span.StartTime(), span.EndTime())
	}
	got := attributes(span.Attributes())
	wantAttributes(t, got, map[string]any{
		"http.request.method": "GET", "url.path": "/users/7", "url.scheme": "http", "network.protocol.version": "1.1",
		"server.address": "shop.example", "server.port": int64(8080),
		"http.route": "/users/{id}", "http.response.status_code": int64(201),
		"http.request.header.x-request-id": []string{"4bf9"},
		"queueing.status":                  "ok", "queueing.clock_offset": 0.5, "queueing.worker": pid(),
		"queueing.delay": nil, "queueing.delay.raw": nil, "queueing.service_time": nil,
	})
	raw := got["queueing.delay.raw"].(float64)
	if text := strconv.FormatFloat(raw, 'f', 6, 64); text != w.Header().Get("X-Queueing-Delay") {
		t.Errorf("queueing.delay.raw %s, header %s", text, w.Header().Get("X-Queueing-Delay"))
	}
	if difference := raw - got["queueing.delay"].(float64); difference < 0.499999 || difference > 0.500001 {
		t.Errorf("the delays differ by %v, want 0.5", difference)
	}
	if text := strconv.FormatFloat(got["queueing.service_time"].(float64), 'f', 6, 64); text != w.Header().Get("X-Service-Time") {
		t.Errorf("queueing.service_time %s, header %s", text, w.Header().Get("X-Service-Time"))
	}
	if events := span.Events(); len(events) != 1 || events[0].Name != "http.proxy.request.started" || !events[0].Time.Equal(stamp) {
		t.Errorf("events %v, want one at %v", events, stamp)
	}

	points := s.delays(t)
	if len(points) != 1 || points[0].Count != 1 || points[0].Sum != got["queueing.delay"] || !slices.Equal(points[0].Bounds, buckets) {
		t.Fatalf("histogram %+v", points)
	}
	wantAttributes(t, attributes(points[0].Attributes.ToSlice()), map[string]any{
		"http.request.method": "GET", "http.route": "/users/{id}", "http.response.status_code": int64(201),
	})
}

func TestSpanOfTheAppGetsTheAttributes(t *testing.T) {
	s := newSDK()
	r, stamp := stamped(time.Second)
	ctx, outer := s.tracers.Tracer("app").Start(r.Context(), "outer")
	s.serve(r.WithContext(ctx), func(w http.ResponseWriter, r *http.Request) {
		if trace.SpanFromContext(r.Context()) != outer {
			t.Error("the handler has another span")
		}
	})
	outer.End()
	span := s.span(t)
	if span.Name() != "outer" {
		t.Errorf("span %q, want outer", span.Name())
	}
	wantAttributes(t, attributes(span.Attributes()), map[string]any{
		"queueing.status": "ok", "queueing.clock_offset": 0.0, "queueing.worker": pid(),
		"queueing.delay": nil, "queueing.delay.raw": nil, "queueing.service_time": nil,
	})
	if events := span.Events(); len(events) != 1 || !events[0].Time.Equal(stamp) {
		t.Errorf("events %v, want one at %v", events, stamp)
	}
	if points := s.delays(t); len(points) != 1 || points[0].Count != 1 {
		t.Errorf("histogram %+v, want one delay", points)
	}
}

func TestSpanThatIsNotSampledIsLeftAlone(t *testing.T) {
	s := newSDK()
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	r, _ := stamped(time.Second)
	ctx, outer := unsampled.Tracer("app").Start(r.Context(), "outer")
	defer outer.End()
	s.serve(r.WithContext(ctx), func(http.ResponseWriter, *http.Request) {})
	if spans := s.spans.Ended(); len(spans) != 0 {
		t.Errorf("%d spans, want none", len(spans))
	}
	if points := s.delays(t); len(points) != 1 {
		t.Errorf("histogram %+v, want one delay", points)
	}
}

// A remote parent in the context, as a propagator in front leaves it, is no span of this process.
func TestRemoteSpanInTheContextIsAParent(t *testing.T) {
	s := newSDK()
	r, _ := stamped(time.Second)
	carrier := propagation.MapCarrier{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	ctx := propagation.TraceContext{}.Extract(r.Context(), carrier)
	s.serve(r.WithContext(ctx), func(http.ResponseWriter, *http.Request) {})
	if parent := s.span(t).Parent().SpanID().String(); parent != "00f067aa0ba902b7" {
		t.Errorf("parent %s", parent)
	}
}

func TestStatus(t *testing.T) {
	for value, want := range map[string]string{
		"": "missing", "junk": "unparsable", "1,2": "unparsable", "123": "unparsable", "9999999999": "future",
		"1000000000": "stale",
	} {
		s := newSDK()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Request-Start", value)
		s.serve(r, func(http.ResponseWriter, *http.Request) {})
		span := s.span(t)
		got := attributes(span.Attributes())
		if got["queueing.status"] != want {
			t.Errorf("status of %q: %v, want %s", value, got["queueing.status"], want)
		}
		for _, name := range []string{"queueing.delay", "queueing.delay.raw"} {
			if delay, ok := got[name]; ok {
				t.Errorf("%s of %q: %v, want none", name, value, delay)
			}
		}
		if len(span.Events()) != 0 || len(s.delays(t)) != 0 {
			t.Errorf("%q: events %v, delays %v, want none", value, span.Events(), s.delays(t))
		}
	}
}

func TestNegativeDelayIsInTheSpanOnly(t *testing.T) {
	s := newSDK()
	r, _ := stamped(-5 * time.Second)
	s.serve(r, func(http.ResponseWriter, *http.Request) {})
	if delay := attributes(s.span(t).Attributes())["queueing.delay"].(float64); delay > -4 || delay < -5 {
		t.Errorf("delay %v, want almost -5", delay)
	}
	if points := s.delays(t); len(points) != 0 {
		t.Errorf("histogram %+v, want none", points)
	}
}

func TestErrors(t *testing.T) {
	failure := errors.New("exploded \xff")
	for name, c := range map[string]struct {
		handler     http.HandlerFunc
		kind        any
		description string
		code        codes.Code
	}{
		"404":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, nil, "", codes.Unset},
		"503":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "503", "", codes.Error},
		"panic": {func(http.ResponseWriter, *http.Request) { panic(failure) }, "*errors.errorString", "panic: exploded \uFFFD", codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSDK()
			r, _ := stamped(time.Second)
			func() {
				defer func() {
					if value := recover(); name == "panic" && value != failure {
						t.Errorf("panic %v, want %v", value, failure)
					}
				}()
				s.serve(r, c.handler)
			}()
			span := s.span(t)
			got := attributes(span.Attributes())
			if got["error.type"] != c.kind || span.Status().Code != c.code || span.Status().Description != c.description {
				t.Errorf("error.type %v, status %+v", got["error.type"], span.Status())
			}
			if name != "panic" {
				return
			}
			for _, unknown := range []string{"http.response.status_code", "queueing.service_time"} {
				if value, ok := got[unknown]; ok {
					t.Errorf("%s = %v, want none", unknown, value)
				}
			}
			if events := span.Events(); len(events) != 2 || events[1].Name != "exception" {
				t.Errorf("events %v, want the stamp and the exception", events)
			}
		})
	}
}

func TestMethodsAndHostsOfClients(t *testing.T) {
	s := newSDK()
	r := httptest.NewRequest("BREW", "https://[::1]/pot", nil)
	r.Header.Set("X-Request-Id", "\xff")
	s.serve(r, func(http.ResponseWriter, *http.Request) {})
	span := s.span(t)
	if span.Name() != "HTTP" {
		t.Errorf("span %q, want HTTP", span.Name())
	}
	wantAttributes(t, attributes(span.Attributes()), map[string]any{
		"http.request.method": "_OTHER", "http.request.method_original": "BREW", "url.path": "/pot", "url.scheme": "https",
		"network.protocol.version": "1.1", "server.address": "::1", "http.response.status_code": int64(200),
		"http.request.header.x-request-id": []string{"\uFFFD"}, "queueing.status": "missing",
		"queueing.clock_offset": 0.0, "queueing.worker": pid(), "queueing.service_time": nil,
	})
}

// The address at which a real server listens stands in for a Host header, which HTTP/1.0 does not need.
func TestAddressOfTheServerWithoutAHost(t *testing.T) {
	s := newSDK()
	observer := New(WithTracerProvider(s.tracers), WithMeterProvider(s.meters))
	server := httptest.NewServer(sojourn.New(sojourn.Observe(observer))(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	address := server.Listener.Addr().String()
	raw(t, address, "GET / HTTP/1.0\r\n\r\n")
	got := attributes(s.span(t).Attributes())
	if got["server.address"] != "127.0.0.1" || got["network.protocol.version"] != "1.0" ||
		address != "127.0.0.1:"+strconv.FormatInt(got["server.port"].(int64), 10) {
		t.Errorf("attributes %v, want the address %s", got, address)
	}
}

// The global providers are used, also if the app sets them after New; before, nothing is recorded.
func TestGlobalProviders(t *testing.T) {
	observer := New()
	handler := sojourn.New(sojourn.Observe(observer))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, _ := stamped(time.Second)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	db := sql.OpenDB(newConnector())
	defer db.Close()
	db.SetMaxOpenConns(4)
	defer ObserveDB(db, "main")()

	s := newSDK()
	otel.SetTracerProvider(s.tracers)
	otel.SetMeterProvider(s.meters)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if parent := s.span(t).Parent().SpanID().String(); parent != "00f067aa0ba902b7" {
		t.Errorf("parent %s, want that of traceparent", parent)
	}
	if points := s.delays(t); len(points) != 1 || points[0].Count != 1 {
		t.Errorf("histogram %+v, want one delay", points)
	}
	if places := s.pools(t)["queueing.pool.places"]["main"]; places != 4 {
		t.Errorf("%v places, want 4", places)
	}
	if w.Header().Get("X-Queueing-Delay") == "" {
		t.Error("no X-Queueing-Delay")
	}
}

func TestPropagatorOfTheOption(t *testing.T) {
	s := newSDK()
	observer := New(WithTracerProvider(s.tracers), WithMeterProvider(s.meters), WithPropagator(propagation.Baggage{}))
	r, _ := stamped(time.Second)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	sojourn.New(sojourn.Observe(observer))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).
		ServeHTTP(httptest.NewRecorder(), r)
	if parent := s.span(t).Parent(); parent.IsValid() {
		t.Errorf("parent %v, want none", parent)
	}
}

// raw sends a request as it is written and reads the response to its end.
func raw(t *testing.T, address, request string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
}

// active returns the values of http.server.active_requests by method and scheme.
func (s *sdk) active(t *testing.T) map[string]int64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range data.ScopeMetrics {
		for _, one := range scope.Metrics {
			if one.Name != "http.server.active_requests" {
				continue
			}
			sum := one.Data.(metricdata.Sum[int64])
			if sum.IsMonotonic || one.Unit != "{request}" {
				t.Errorf("monotonic %v, unit %q", sum.IsMonotonic, one.Unit)
			}
			for _, point := range sum.DataPoints {
				method, _ := point.Attributes.Value("http.request.method")
				scheme, _ := point.Attributes.Value("url.scheme")
				values[method.AsString()+" "+scheme.AsString()] = point.Value
			}
		}
	}
	return values
}

func TestRequestsInProgress(t *testing.T) {
	s := newSDK()
	released := make(chan struct{})
	observer := New(WithTracerProvider(s.tracers), WithMeterProvider(s.meters))
	// One request has a place, and the others wait for it.
	handler := sojourn.New(sojourn.Observe(observer), sojourn.Limit(1))(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			r.Method = "CHANGED"
			<-released
		}))
	server := httptest.NewServer(handler)
	defer server.Close()
	ends := make(chan error, 3)
	for _, method := range []string{"GET", "GET", "BREW"} {
		r, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			response, err := server.Client().Do(r)
			if err == nil {
				response.Body.Close()
			}
			ends <- err
		}()
	}
	want := func(get, other int64) {
		t.Helper()
		var values map[string]int64
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			values = s.active(t)
			if len(values) == 2 && values["GET http"] == get && values["_OTHER http"] == other {
				return
			}
		}
		t.Fatalf("%v, want %d and %d", values, get, other)
	}
	want(2, 1)
	close(released)
	for range 3 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	want(0, 0)
}
