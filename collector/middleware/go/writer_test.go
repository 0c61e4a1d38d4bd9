package sojourn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// interfaces returns the names of the optional interfaces that a writer has.
func interfaces(w http.ResponseWriter) (names []string) {
	for _, one := range []struct {
		name string
		has  bool
	}{
		{"Flusher", is[http.Flusher](w)},
		{"Hijacker", is[http.Hijacker](w)},
		{"ReaderFrom", is[io.ReaderFrom](w)},
		{"Pusher", is[http.Pusher](w)},
		{"CloseNotifier", is[http.CloseNotifier](w)},
	} {
		if one.has {
			names = append(names, one.name)
		}
	}
	return names
}

type (
	fakeFlusher       struct{}
	fakeHijacker      struct{}
	fakeReaderFrom    struct{}
	fakePusher        struct{}
	fakeCloseNotifier struct{}
)

func (fakeFlusher) Flush()                                        {}
func (fakeHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, io.ErrNoProgress }
func (fakeReaderFrom) ReadFrom(r io.Reader) (int64, error)        { return io.Copy(io.Discard, r) }
func (fakePusher) Push(string, *http.PushOptions) error           { return io.ErrNoProgress }
func (fakeCloseNotifier) CloseNotify() <-chan bool                { return nil }

// Every combination of the optional interfaces reaches the handler: no more and no less.
func TestWriterHasTheInterfacesOfTheServers(t *testing.T) {
	type base struct{ http.ResponseWriter }
	b := base{httptest.NewRecorder()}
	for _, w := range []http.ResponseWriter{
		b,
		struct {
			base
			fakeFlusher
		}{base: b},
		struct {
			base
			fakeHijacker
		}{base: b},
		struct {
			base
			fakeReaderFrom
		}{base: b},
		struct {
			base
			fakePusher
		}{base: b},
		struct {
			base
			fakeCloseNotifier
		}{base: b},
		struct {
			base
			fakeFlusher
			fakeHijacker
		}{base: b},
		struct {
			base
			fakeHijacker
			fakePusher
		}{base: b},
		struct {
			base
			fakeFlusher
			fakeReaderFrom
			fakeCloseNotifier
		}{base: b},
		struct {
			base
			fakeFlusher
			fakeHijacker
			fakeReaderFrom
			fakePusher
			fakeCloseNotifier
		}{base: b},
	} {
		var got []string
		New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			got = interfaces(w)
		})).ServeHTTP(w, refused(httptest.NewRequest("GET", "/", nil)))
		if want := interfaces(w); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("interfaces %v, want %v", got, want)
		}
	}
}

func TestEveryViewHasItsOwnInterfaces(t *testing.T) {
	if len(views) != 32 {
		t.Fatalf("%d views, want 32", len(views))
	}
	all := []string{"Flusher", "Hijacker", "ReaderFrom", "Pusher", "CloseNotifier"}
	for number, view := range views {
		var want []string
		for bit, name := range all {
			if number>>bit&1 == 1 {
				want = append(want, name)
			}
		}
		if got := interfaces(view(&writer{})); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("view %d has %v, want %v", number, got, want)
		}
	}
}

func TestRealServersKeepTheirInterfaces(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			var bare, measured []string
			note := func(to *[]string) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					*to = interfaces(w)
					io.WriteString(w, r.Proto)
				})
			}
			mux := http.NewServeMux()
			mux.Handle("/bare", note(&bare))
			mux.Handle("/measured", New()(note(&measured)))
			server := httptest.NewUnstartedServer(mux)
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			defer server.Close()
			for _, path := range []string{"/bare", "/measured"} {
				if _, body := fetch(t, server.Client(), "GET", server.URL+path); body != protocol {
					t.Fatalf("protocol %s, want %s", body, protocol)
				}
			}
			if len(bare) < 2 || fmt.Sprint(bare) != fmt.Sprint(measured) {
				t.Errorf("interfaces %v, want %v", measured, bare)
			}
		})
	}
}

// Each handler sends its headers in another way; all responses have the headers of the middleware once.
func TestHeadersLeaveWithEveryKindOfResponse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.txt")
	content := strings.Repeat("0123456789", 10_000)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	handlers := map[string]struct {
		status  int
		body    string
		handler http.HandlerFunc
	}{
		"nothing":     {200, "", func(http.ResponseWriter, *http.Request) {}},
		"WriteHeader": {204, "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }},
		"304":         {304, "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }},
		"Write":       {200, "a", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("a")) }},
		"WriteString": {200, "a", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a") }},
		"Fprintf":     {200, "7", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%d", 7) }},
		"Error":       {418, "no\n", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 418) }},
		"Flush":       {200, "a", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "a") }},
		"controller": {200, "a", func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "a")
		}},
		"Copy": {200, content, func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, struct{ io.Reader }{strings.NewReader(content)})
		}},
		"Copy of nothing": {404, "", func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, struct{ io.Reader }{strings.NewReader("")})
			w.WriteHeader(404)
		}},
		"ServeFile": {200, content, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }},
		"large":     {200, content, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, content) }},
	}
	for name, one := range handlers {
		t.Run(name, func(t *testing.T) {
			server := serve(t, New()(one.handler))
			for _, method := range []string{"GET", "HEAD"} {
				response, body := fetch(t, server.Client(), method, server.URL)
				want := one.body
				if method == "HEAD" {
					want = ""
				}
				if response.StatusCode != one.status || body != want {
					t.Errorf("%s: status %d and %d bytes, want %d and %d", method, response.StatusCode, len(body), one.status, len(want))
				}
				wantMeasured(t, response.Header)
			}
		})
	}
}

func TestInformationalResponsesDoNotEndTheServiceTime(t *testing.T) {
	var measured Measurement
	server := serve(t, New(Observe(observerFunc(func(m Measurement) { measured = m })))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot) // superfluous: the first final status counts
		})))
	server.Config.ErrorLog = discardLog
	r := refusedTo(t, server.URL)
	informational := 0
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			informational = code
			wantUnmeasured(t, http.Header(header))
			return nil
		},
	}))
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if informational != 103 || response.StatusCode != 202 || measured.Status != 202 {
		t.Errorf("statuses %d, %d and %d, want 103, 202 and 202", informational, response.StatusCode, measured.Status)
	}
	wantMeasured(t, response.Header)
}

func TestHijackedConnectionIsMeasuredUpToThere(t *testing.T) {
	ended := make(chan Measurement, 1)
	server := serve(t, New(Observe(observerFunc(func(m Measurement) { ended <- m })))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			buffer.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			buffer.Flush()
		})))
	response, body := fetch(t, server.Client(), "GET", server.URL)
	if body != "hi" {
		t.Errorf("body %q, want %q", body, "hi")
	}
	wantUnmeasured(t, response.Header)
	if m := <-ended; m.Status != 0 || !m.Answered || m.ServiceTime < 0 || m.Panic != nil {
		t.Errorf("measurement %+v, want a service time and no status", m)
	}
}

func TestSwitchingProtocolsIsAFinalStatus(t *testing.T) {
	server := serve(t, New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})))
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\nX-Request-Start: junk\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 101 {
		t.Errorf("status %d, want 101", response.StatusCode)
	}
	wantMeasured(t, response.Header)
}

func TestFlushIsRefusedIfTheServerCannot(t *testing.T) {
	type bare struct{ http.ResponseWriter } // without Unwrap
	recorder := httptest.NewRecorder()
	New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("error %v, want %v", err, http.ErrNotSupported)
		}
		wantUnmeasured(t, w.Header())
		w.WriteHeader(http.StatusNotFound)
	})).ServeHTTP(bare{recorder}, refused(httptest.NewRequest("GET", "/", nil)))
	if recorder.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", recorder.Code)
	}
	wantMeasured(t, recorder.Header())
}

// A writer in between hides that the server can flush, except from http.ResponseController.
func TestFlushThroughAnotherWriterSendsTheHeaders(t *testing.T) {
	recorder := httptest.NewRecorder()
	New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if is[http.Flusher](w) {
			t.Error("the writer is a Flusher, unlike the one outside")
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})).ServeHTTP(hiding{recorder}, refused(httptest.NewRequest("GET", "/", nil)))
	if !recorder.Flushed {
		t.Error("nothing was flushed")
	}
	wantMeasured(t, recorder.Result().Header) // as they were at the flush
}

type hiding struct{ http.ResponseWriter }

func (h hiding) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func TestControllerReachesDeadlinesOfTheServer(t *testing.T) {
	server := serve(t, New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		controller := http.NewResponseController(w)
		for name, err := range map[string]error{
			"read deadline":  controller.SetReadDeadline(neverAgain),
			"write deadline": controller.SetWriteDeadline(neverAgain),
			"full duplex":    controller.EnableFullDuplex(),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})))
	response, _ := fetch(t, server.Client(), "GET", server.URL)
	wantMeasured(t, response.Header)
}

// A source that is slow keeps the request in service until its first bytes.
func TestCopyEndsTheServiceTimeWithTheFirstBytes(t *testing.T) {
	read, write := io.Pipe()
	handler := make(chan struct{})
	server := serve(t, New()(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-handler
			io.WriteString(write, "late")
			write.Close()
		}()
		wantUnmeasured(t, w.Header())
		if copied, err := w.(io.ReaderFrom).ReadFrom(checkedReader{t, w, read}); copied != 4 || err != nil {
			t.Errorf("copied %d bytes, error %v, want 4", copied, err)
		}
	})))
	close(handler)
	response, body := fetch(t, server.Client(), "GET", server.URL)
	if body != "late" {
		t.Errorf("body %q, want %q", body, "late")
	}
	wantMeasured(t, response.Header)
}

// checkedReader reports headers that are set before its first bytes.
type checkedReader struct {
	t    *testing.T
	w    http.ResponseWriter
	from io.Reader
}

func (r checkedReader) Read(buffer []byte) (int, error) {
	read, err := r.from.Read(buffer)
	if read > 0 {
		wantUnmeasured(r.t, r.w.Header())
	}
	return read, err
}

func TestErrorOfACopyIsReturned(t *testing.T) {
	failure := errors.New("disk")
	server := serve(t, New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if copied, err := io.Copy(w, io.MultiReader(failing{failure})); copied != 0 || err != failure {
			t.Errorf("copied %d bytes, error %v, want 0 and %v", copied, err, failure)
		}
		wantUnmeasured(t, w.Header())
		http.Error(w, "gone", http.StatusGone)
	})))
	if response, _ := fetch(t, server.Client(), "GET", server.URL); response.StatusCode != http.StatusGone {
		t.Errorf("status %d, want 410", response.StatusCode)
	}
}

func TestCopyReturnsTheErrorsOfBothSides(t *testing.T) {
	failure := errors.New("connection")
	for name, c := range map[string]struct {
		source io.Reader
		write  error
		copied int64
		want   error
	}{
		"bytes together with the end":    {iotest.DataErrReader(strings.NewReader("abc")), nil, 3, nil},
		"bytes together with an error":   {iotest.DataErrReader(io.MultiReader(strings.NewReader("abc"), failing{failure})), nil, 3, failure},
		"a client that has disconnected": {strings.NewReader("abc"), failure, 0, failure},
	} {
		t.Run(name, func(t *testing.T) {
			New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if copied, err := w.(io.ReaderFrom).ReadFrom(c.source); copied != c.copied || err != c.want {
					t.Errorf("copied %d bytes, error %v, want %d and %v", copied, err, c.copied, c.want)
				}
			})).ServeHTTP(refusing{&recordingReaderFrom{ResponseRecorder: httptest.NewRecorder()}, c.write},
				refused(httptest.NewRequest("GET", "/", nil)))
		})
	}
}

// refusing is a writer with an error, or none.
type refusing struct {
	*recordingReaderFrom
	err error
}

func (r refusing) Write(data []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.recordingReaderFrom.Write(data)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The server sends a file without copying it through the middleware, if it can.
func TestCopyIsLeftToTheServer(t *testing.T) {
	recorder := &recordingReaderFrom{ResponseRecorder: httptest.NewRecorder()}
	content := strings.Repeat("x", 2000)
	New()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, struct{ io.Reader }{strings.NewReader(content)})
		io.Copy(w, struct{ io.Reader }{strings.NewReader("end")})
	})).ServeHTTP(recorder, refused(httptest.NewRequest("GET", "/", nil)))
	if recorder.Body.String() != content+"end" || recorder.copied.String() != content[512:]+"end" {
		t.Errorf("%d bytes, of which ReadFrom copied %d", recorder.Body.Len(), recorder.copied.Len())
	}
}

type recordingReaderFrom struct {
	*httptest.ResponseRecorder
	copied bytes.Buffer
}

func (r *recordingReaderFrom) ReadFrom(source io.Reader) (int64, error) {
	return io.Copy(io.MultiWriter(r.ResponseRecorder, &r.copied), source)
}
