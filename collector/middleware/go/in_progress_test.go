package sojourn

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// expect fails the test if the gauge does not get the value in time.
func expect(t *testing.T, gauge *Gauge, value int64) {
	t.Helper()
	eventually(t, "the requests in progress", func() bool { return gauge.Value() == value })
}

// held is a handler whose requests last until released; its channel is closed at the end of the test.
func held(t *testing.T) (handler http.HandlerFunc, release func()) {
	released := make(chan struct{})
	var closed bool
	release = func() {
		if !closed {
			closed = true
			close(released)
		}
	}
	t.Cleanup(release)
	return func(http.ResponseWriter, *http.Request) { <-released }, release
}

// request sends a request to a server and reports the end of the response.
func request(url string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		response, err := http.Get(url)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		ended <- err
	}()
	return ended
}

// connect sends the head of a request and returns the connection and the first line of the response.
func connect(t *testing.T, server *httptest.Server, head string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, head+"\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return conn, reader, line
}

func TestConcurrentRequestsAreInProgress(t *testing.T) {
	gauge := &Gauge{Service: "shop"}
	handler, release := held(t)
	server := serve(t, New(InProgress(gauge))(handler))
	metrics := serve(t, gauge)
	scrape := func() string {
		_, body := fetch(t, metrics.Client(), "GET", metrics.URL)
		return body
	}
	ends := []<-chan error{request(server.URL), request(server.URL), request(server.URL)}
	expect(t, gauge, 3)
	if body := scrape(); !strings.HasSuffix(body, "\nsojourn_requests_in_progress{service=\"shop\"} 3\n") {
		t.Error(body)
	}
	release()
	for _, end := range ends {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
	expect(t, gauge, 0)
}

func TestTextOfTheGauge(t *testing.T) {
	w := httptest.NewRecorder()
	(&Gauge{Service: "a \"b\\c\"\n"}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	const text = "# HELP sojourn_requests_in_progress Requests that the app has started and not finished, " +
		"without WebSockets and server-sent events.\n# TYPE sojourn_requests_in_progress gauge\n" +
		"sojourn_requests_in_progress{service=\"a \\\"b\\\\c\\\"\\n\"} 0\n"
	if w.Body.String() != text {
		t.Errorf("%q", w.Body)
	}
	if kind := w.Header().Get("Content-Type"); kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Error(kind)
	}
}

func TestWaitForAPlaceIsInProgress(t *testing.T) {
	gauge := &Gauge{}
	handler, release := held(t)
	server := serve(t, New(InProgress(gauge), Limit(1))(handler))
	ends := []<-chan error{request(server.URL), request(server.URL)}
	expect(t, gauge, 2)

	// A client that leaves the queue.
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r)
		left <- err
	}()
	expect(t, gauge, 3)
	cancel()
	if err := <-left; err == nil {
		t.Error("the request has a response")
	}
	expect(t, gauge, 2)
	release()
	for _, end := range ends {
		<-end
	}
	expect(t, gauge, 0)
}

func TestPanicEndsARequest(t *testing.T) {
	gauge := &Gauge{}
	values := make(chan int64, 1)
	server := serve(t, New(InProgress(gauge))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		values <- gauge.Value()
		panic(http.ErrAbortHandler)
	})))
	if err := <-request(server.URL); err == nil {
		t.Error("the request has a response")
	}
	if value := <-values; value != 1 {
		t.Errorf("%d requests in progress, want 1", value)
	}
	expect(t, gauge, 0)
}

func TestRequestOfAClientThatHasLeftEndsWithItsHandler(t *testing.T) {
	gauge := &Gauge{}
	handler, release := held(t)
	server := serve(t, New(InProgress(gauge))(handler))
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	expect(t, gauge, 1)
	conn.Close()
	release()
	expect(t, gauge, 0)
}

func TestConnectionOfAnotherProtocolIsNotInProgress(t *testing.T) {
	for name, take := range map[string]func(w http.ResponseWriter){
		"hijacked": func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { conn.Close() })
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
		},
		"WriteHeader": func(w http.ResponseWriter) {
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
			http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			gauge := &Gauge{}
			wait, release := held(t)
			server := serve(t, New(InProgress(gauge))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				take(w)
				wait(w, r)
			})))
			t.Cleanup(release) // before the server is closed
			_, _, line := connect(t, server, "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket")
			if !strings.Contains(line, "101") {
				t.Fatal(line)
			}
			if value := gauge.Value(); value != 0 {
				t.Errorf("%d requests in progress, want 0", value)
			}
			release()
			expect(t, gauge, 0)
		})
	}
}

func TestServerSentEventsAreNotInProgress(t *testing.T) {
	for kind, value := range map[string]int64{
		"text/event-stream":                0,
		"Text/Event-Stream; charset=utf-8": 0,
		"text/event-streams":               1,
		"text/plain":                       1,
	} {
		t.Run(kind, func(t *testing.T) {
			gauge := &Gauge{}
			wait, release := held(t)
			server := serve(t, New(InProgress(gauge))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", kind)
				io.WriteString(w, "data: first\n\n")
				http.NewResponseController(w).Flush()
				wait(w, r)
			})))
			t.Cleanup(release)
			connect(t, server, "GET / HTTP/1.1")
			if present := gauge.Value(); present != value {
				t.Errorf("%d requests in progress, want %d", present, value)
			}
			release()
			expect(t, gauge, 0)
		})
	}
}

func TestMiddlewareInsideAnotherOneCountsOnce(t *testing.T) {
	gauge := &Gauge{}
	var value int64
	inner := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { value = gauge.Value() })
	handler := New(InProgress(gauge))(New(InProgress(gauge), Limit(2))(inner))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if value != 1 || gauge.Value() != 0 {
		t.Errorf("%d requests in progress, then %d", value, gauge.Value())
	}
}

// failingCounter panics at the start of every request.
type failingCounter struct{ observerFunc }

func (failingCounter) Enter(context.Context, *http.Request) func() { panic("no counter") }

func TestCounterThatPanicsIsAWarning(t *testing.T) {
	gauge := &Gauge{}
	text, logger := testLog()
	counter := failingCounter{func(Measurement) {}}
	handler := New(Observe(counter), InProgress(gauge), logger)(empty)
	for range 2 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if strings.Count(text.String(), "no counter") != 1 || gauge.Value() != 0 {
		t.Errorf("%s; %d requests in progress", text, gauge.Value())
	}
}

func TestGaugeThatIsNilIsRefused(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(InProgress(nil))
}
