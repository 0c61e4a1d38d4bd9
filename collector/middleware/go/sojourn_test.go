package sojourn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	discardLog = log.New(io.Discard, "", 0)
	neverAgain = time.Now().Add(time.Hour)
)

// call serves one request in memory.
func call(handler http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, refused(httptest.NewRequest("GET", "/users/7", nil)))
	return w
}

func TestWorkerIsTheProcessWithoutALimit(t *testing.T) {
	for _, options := range [][]Option{nil, {Limit(0)}} {
		if got := call(New(options...)(empty)).Header().Get("X-Worker"); got != strconv.Itoa(os.Getpid()) {
			t.Errorf("worker %q, want %d", got, os.Getpid())
		}
	}
}

func TestDelayAndServiceTimeOfARealRequest(t *testing.T) {
	server := serve(t, New()(empty))
	r, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Millisecond)
	r.Header.Set("X-Request-Start", fmt.Sprintf("t=%d.%03d", before.Unix(), before.Nanosecond()/1e6))
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	elapsed := time.Since(before).Seconds()
	delay, err := strconv.ParseFloat(response.Header.Get("X-Queueing-Delay"), 64)
	if err != nil || delay < 0 || delay > elapsed {
		t.Errorf("delay %v (%v), want 0 to %v", delay, err, elapsed)
	}
	service, err := strconv.ParseFloat(response.Header.Get("X-Service-Time"), 64)
	if err != nil || service < 0 || service > elapsed {
		t.Errorf("service time %v (%v), want 0 to %v", service, err, elapsed)
	}
}

func TestHeadersOfTheAppAreReplaced(t *testing.T) {
	w := call(New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"X-Queueing-Delay", "X-Service-Time", "X-Worker", "x-worker", "X-SERVICE-TIME"} {
			w.Header()[name] = []string{"own", "values"}
		}
		w.Header().Set("X-Other", "kept")
	})))
	if len(w.Header()) != 3 || w.Header().Get("X-Other") != "kept" {
		t.Errorf("headers %v, want X-Service-Time, X-Worker and X-Other", w.Header())
	}
	wantMeasured(t, w.Header())
}

func TestServerTimingOfTheAppRemains(t *testing.T) {
	w := call(New(ServerTiming(), at(time.Unix(1, 0), time.Second))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Server-Timing", "db;dur=3") })))
	if got := strings.Join(w.Header()["Server-Timing"], ", "); got != "db;dur=3, app;dur=1000.000" {
		t.Errorf("Server-Timing %q", got)
	}
}

func TestRoute(t *testing.T) {
	byOption := func(*http.Request) string { return "/option" }
	unknown := func(*http.Request) string { return "" }
	setting := func(route string) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { SetRoute(r.Context(), route) })
	}
	settingTwice := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		SetRoute(r.Context(), "/set")
		SetRoute(r.Context(), "")
	})
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Route", "/own") })
	mux := func(pattern string, handler http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, handler)
		return mux
	}
	pattern := func(template string) string {
		if !hasPattern {
			return ""
		}
		return template
	}
	for _, c := range []struct {
		name    string
		route   func(*http.Request) string
		handler http.Handler
		want    string
	}{
		{"none", nil, empty, ""},
		{"option", byOption, setting("/set"), "/option"},
		{"SetRoute", unknown, setting("/set"), "/set"},
		{"SetRoute before the pattern", nil, mux("/users/{id}", setting("/set")), "/set"},
		{"empty SetRoute", nil, setting(""), ""},
		{"empty SetRoute after another", nil, settingTwice, "/set"},
		{"pattern", nil, mux("/users/{id}", empty), pattern("/users/{id}")},
		{"pattern with a method", nil, mux("GET /users/{id}", empty), pattern("/users/{id}")},
		{"pattern with a host", nil, mux("GET example.com/users/{id}", empty), pattern("/users/{id}")},
		{"no pattern", nil, mux("/other", empty), ""},
		{"of the app", nil, own, "/own"},
		{"of the app, replaced", byOption, own, "/option"},
		{"escaped", nil, setting("/é\n%"), "/%C3%A9%0A%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var measured Measurement
			w := call(New(Route(c.route), Observe(observerFunc(func(m Measurement) { measured = m })))(c.handler))
			if got := strings.Join(w.Header()["X-Route"], "|"); got != c.want {
				t.Errorf("X-Route %q, want %q", got, c.want)
			}
			if c.name != "escaped" && measured.Route != c.want {
				t.Errorf("route of the measurement %q, want %q", measured.Route, c.want)
			}
		})
	}
}

func TestRouteFunctionOfAServeMux(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", empty)
	inside := func(next http.Handler) http.Handler { // hides the pattern that the mux sets
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), "key", 1))) //nolint:staticcheck // a test's key
		})
	}
	route := func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return strings.TrimPrefix(pattern, r.Method+" ")
	}
	if got := call(New(Route(route))(inside(mux))).Header().Get("X-Route"); got != "/users/{id}" {
		t.Errorf("X-Route %q, want /users/{id}", got)
	}
}

func TestSetRouteAndMarkStartedOutsideOfARequestDoNothing(t *testing.T) {
	SetRoute(context.Background(), "/users/{id}")
	MarkStarted(context.Background())
}

func TestMarkStartedEndsTheQueueingDelay(t *testing.T) {
	now := time.Unix(1767225600, 0)
	clock := func(m *middleware) { m.now = func() time.Time { return now } }
	r := refused(httptest.NewRequest("GET", "/", nil))
	r.Header.Set("X-Request-Start", "t=1767225599.000")
	w := httptest.NewRecorder()
	var measured Measurement
	observe := Observe(observerFunc(func(m Measurement) { measured = m }))
	New(clock, observe)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now = now.Add(2 * time.Second)
		MarkStarted(r.Context())
		now = now.Add(4 * time.Second)
		w.WriteHeader(http.StatusOK)
		now = now.Add(8 * time.Second)
		MarkStarted(r.Context())
	})).ServeHTTP(w, r)
	if got := w.Header().Get("X-Queueing-Delay"); got != "3.000000" {
		t.Errorf("delay %s, want 3.000000", got)
	}
	if got := w.Header().Get("X-Service-Time"); got != "4.000000" {
		t.Errorf("service time %s, want 4.000000", got)
	}
	if delay, _ := measured.QueueingDelay(); delay != 3*time.Second || measured.ServiceTime != 4*time.Second {
		t.Errorf("delay %v and service time %v of the measurement, want 3s and 4s", delay, measured.ServiceTime)
	}
}

func TestOnlyTheOuterMiddlewareMeasures(t *testing.T) {
	calls := 0
	count := Observe(observerFunc(func(Measurement) { calls++ }))
	set := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { SetRoute(r.Context(), "/users/{id}") })
	w := call(New(count)(New(count, ServerTiming(), Route(func(*http.Request) string { return "/inner" }))(set)))
	if calls != 1 || w.Header().Get("X-Route") != "/users/{id}" || w.Header().Get("Server-Timing") != "" {
		t.Errorf("%d measurements, headers %v", calls, w.Header())
	}
	wantMeasured(t, w.Header())
}

func TestObserverGetsTheMeasurement(t *testing.T) {
	now := time.Unix(1767225600, 0)
	r := refused(httptest.NewRequest("GET", "/", nil))
	r.Header.Set("X-Request-Start", "t=1767225599.250")
	var measured Measurement
	New(Observe(observerFunc(func(m Measurement) { measured = m })), at(now, 2*time.Second), ClockOffset(-time.Second))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }),
	).ServeHTTP(httptest.NewRecorder(), r)
	want := Measurement{
		Start: now, Stamp: time.UnixMicro(1767225599250000), ClockOffset: -time.Second, Worker: strconv.Itoa(os.Getpid()),
		Status: 201, ServiceTime: 2 * time.Second, Answered: true, End: now.Add(2 * time.Second),
	}
	if measured != want {
		t.Errorf("measurement %+v, want %+v", measured, want)
	}
	raw, _ := measured.QueueingDelay()
	corrected, ok := measured.CorrectedDelay()
	if raw != 750*time.Millisecond || corrected != 1750*time.Millisecond || !ok {
		t.Errorf("delay %v, corrected %v", raw, corrected)
	}
}

type contextObserver struct{ name string }

func (o contextObserver) Begin(ctx context.Context, _ *http.Request, _ Measurement) (context.Context, func(Measurement)) {
	return context.WithValue(ctx, o, o.name), nil
}

func TestHandlerGetsTheContextOfTheObservers(t *testing.T) {
	a, b := contextObserver{"a"}, contextObserver{"b"}
	call(New(Observe(a), Observe(b))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Context().Value(a) != "a" || r.Context().Value(b) != "b" {
			t.Errorf("values %v and %v, want a and b", r.Context().Value(a), r.Context().Value(b))
		}
	})))
}

func TestContextOfTheRequestIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := refused(httptest.NewRequest("GET", "/", nil)).WithContext(ctx)
	New()(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		child, end := context.WithCancel(r.Context())
		defer end()
		cancel()
		<-child.Done()
		if err := r.Context().Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}

type failingObserver struct{ late bool }

func (o failingObserver) Begin(ctx context.Context, _ *http.Request, _ Measurement) (context.Context, func(Measurement)) {
	if !o.late {
		panic("early")
	}
	return ctx, func(Measurement) { panic("late") }
}

func TestFailuresAreOneWarningAndNoError(t *testing.T) {
	text, logger := testLog()
	ended := 0
	handler := New(
		logger, Observe(failingObserver{}), Observe(failingObserver{late: true}),
		Observe(observerFunc(func(Measurement) { ended++ })), Route(func(*http.Request) string { panic("lost") }),
	)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { SetRoute(r.Context(), "/users/{id}") }))
	for range 3 {
		w := call(handler)
		if w.Code != 200 || w.Header().Get("X-Route") != "/users/{id}" {
			t.Errorf("status %d, headers %v", w.Code, w.Header())
		}
		wantMeasured(t, w.Header())
	}
	if ended != 3 {
		t.Errorf("the third observer got %d measurements, want 3", ended)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines in the log, want 3:\n%s", len(lines), text)
	}
	for _, word := range []string{"error=early", "error=late", "error=lost"} {
		if strings.Count(text.String(), word) != 1 {
			t.Errorf("the log has no %q:\n%s", word, text)
		}
	}
}

func explode(http.ResponseWriter, *http.Request) { panic(errExploded) }

var errExploded = errors.New("exploded")

// A panic ends the connection as without the middleware, and the log of the server has the stack of the handler.
func TestPanicReachesTheServerWithItsStack(t *testing.T) {
	for name, options := range map[string][]Option{
		"without observer": nil,
		"with observer":    {Observe(observerFunc(func(Measurement) {}))},
	} {
		t.Run(name, func(t *testing.T) {
			logged := make(chan string, 1)
			server := httptest.NewUnstartedServer(New(options...)(http.HandlerFunc(explode)))
			server.Config.ErrorLog = log.New(writerFunc(func(line []byte) { logged <- string(line) }), "", 0)
			server.Start()
			defer server.Close()
			if _, err := server.Client().Get(server.URL); !errors.Is(err, io.EOF) {
				t.Errorf("error %v, want %v", err, io.EOF)
			}
			line := <-logged
			if !strings.Contains(line, "exploded") || !strings.Contains(line, ".explode(") {
				t.Errorf("the log lacks the panic or its stack:\n%s", line)
			}
		})
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(data []byte) (int, error) { f(data); return len(data), nil }

func TestObserverGetsThePanic(t *testing.T) {
	for _, value := range []any{errExploded, http.ErrAbortHandler, "text"} {
		var measured Measurement
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if got := recover(); got != value {
					t.Errorf("panic %v, want %v", got, value)
				}
			}()
			New(Observe(observerFunc(func(m Measurement) { measured = m })))(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(value) }),
			).ServeHTTP(w, refused(httptest.NewRequest("GET", "/", nil)))
		}()
		if measured.Panic != value || measured.Answered || measured.Status != 0 || measured.End.IsZero() {
			t.Errorf("measurement %+v, want the panic %v and no response", measured, value)
		}
		wantUnmeasured(t, w.Header())
	}
}

func TestGoexitEndsTheMeasurement(t *testing.T) {
	ended := make(chan Measurement, 1)
	go New(Observe(observerFunc(func(m Measurement) { ended <- m })))(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }),
	).ServeHTTP(httptest.NewRecorder(), refused(httptest.NewRequest("GET", "/", nil)))
	if m := <-ended; m.Answered || m.Panic != nil {
		t.Errorf("measurement %+v, want no response and no panic", m)
	}
}

// An http.TimeoutHandler inside responds while its handler still runs: with the race detector, a test of the locks.
func TestTimeoutHandlerInside(t *testing.T) {
	hold := make(chan struct{})
	var running sync.WaitGroup
	running.Add(1)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer running.Done()
		<-r.Context().Done()
		SetRoute(r.Context(), "/slow")
		MarkStarted(r.Context())
		<-hold
		SetRoute(r.Context(), "/slow")
		MarkStarted(r.Context())
	})
	w := call(New(Observe(observerFunc(func(Measurement) {})))(http.TimeoutHandler(slow, time.Millisecond, "late")))
	close(hold)
	running.Wait()
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
	wantMeasured(t, w.Header())
}

func TestPatternReachesMiddlewaresOutside(t *testing.T) {
	if !hasPattern {
		t.Skip("requests have no pattern before Go 1.23")
	}
	mux := http.NewServeMux()
	mux.Handle("/users/{id}", empty)
	r := refused(httptest.NewRequest("GET", "/users/7", nil))
	limited := New(Limit(1))
	New()(limited(mux)).ServeHTTP(httptest.NewRecorder(), r)
	if got := patternOf(r); got != "/users/{id}" {
		t.Errorf("pattern %q, want /users/{id}", got)
	}
}

// The server deletes the temporary files of an upload, which it looks for in its own request.
func TestFilesOfAnUploadAreDeleted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	server := serve(t, New()(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(0); err != nil {
			t.Error(err)
		}
		if entries, _ := os.ReadDir(os.TempDir()); len(entries) != 1 {
			t.Errorf("%d temporary files during the request, want 1", len(entries))
		}
	})))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "large")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(make([]byte, 11<<20)) // more than what is kept in memory
	form.Close()
	response, err := server.Client().Post(server.URL, form.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	eventually(t, "the temporary file to be deleted", func() bool {
		entries, err := os.ReadDir(os.TempDir())
		return err == nil && len(entries) == 0
	})
}

func TestInvalidOptionsPanic(t *testing.T) {
	for name, option := range map[string]Option{
		"MaxAge": MaxAge(-1), "MaxLead": MaxLead(-time.Second), "Limit": Limit(-1),
		"Observe": Observe(nil),
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "sojourn: "+name+" ") {
					t.Errorf("%s: panic %q", name, text)
				}
			}()
			New(option)
		}()
	}
}
