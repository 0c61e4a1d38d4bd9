// Package frameworks tests the middleware with the real routers and instrumentations. It is a module of its own, so that
// the middleware has no dependency.
package frameworks

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	sojourn "sojourn/middleware"
	sojournotel "sojourn/middleware/otel"
)

// Each app has the routes /users/7, /stream, /panic, /hijack and /file, by its router's own means.
var apps = map[string]struct {
	user string // the template of /users/7
	app  http.Handler
}{
	"chi":                        {"/users/{id}", chiRouter(sojourn.New(sojourn.Route(chiRoute)))},
	"chi behind its own writer":  {"/users/{id}", chiRouter(chiWriter, sojourn.New(sojourn.Route(chiRoute)), chiWriter)},
	"gin":                        {"/users/:id", sojourn.New()(ginRouter())},
	"echo":                       {"/users/:id", sojourn.New()(echoRouter())},
	"echo with WrapMiddleware":   {"/users/:id", echoRouter(echo.WrapMiddleware(sojourn.New()))},
	"a limit around otelhttp":    {"/users/:id", sojourn.New(sojourn.Limit(2))(otelhttp.NewHandler(ginRouter(), "app"))},
	"inside otelhttp":            {"/users/:id", otelhttp.NewHandler(sojourn.New()(ginRouter()), "app")},
	"two, of which one measures": {"/users/:id", sojourn.New()(sojourn.New()(ginRouter()))},
}

func chiRoute(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() }

// chiWriter is what chi's own middlewares do with the writer.
func chiWriter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(chimiddleware.NewWrapResponseWriter(w, r.ProtoMajor), r)
	})
}

func chiRouter(middlewares ...func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middlewares...)
	r.Use(chimiddleware.Recoverer)
	r.Route("/users", func(r chi.Router) {
		r.Get("/{id}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "user "+chi.URLParam(r, "id")) })
	})
	r.Get("/stream", func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range parts {
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	})
	r.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("exploded") })
	r.Get("/hijack", func(w http.ResponseWriter, _ *http.Request) { hijack(w.(http.Hijacker).Hijack()) })
	r.Get("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "go.mod") })
	return r
}

func ginRouter() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) { sojourn.SetRoute(c.Request.Context(), c.FullPath()) })
	r.GET("/users/:id", func(c *gin.Context) { c.String(http.StatusOK, "user "+c.Param("id")) })
	r.GET("/stream", func(c *gin.Context) {
		i := 0
		c.Stream(func(w io.Writer) bool { // needs http.CloseNotifier
			io.WriteString(w, parts[i])
			i++
			return i < len(parts)
		})
	})
	r.GET("/panic", func(*gin.Context) { panic("exploded") })
	r.GET("/hijack", func(c *gin.Context) { hijack(c.Writer.Hijack()) })
	r.GET("/file", func(c *gin.Context) { c.File("go.mod") })
	return r
}

func echoRouter(middlewares ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middlewares...)
	e.Use(echomiddleware.Recover(), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			sojourn.SetRoute(c.Request().Context(), c.Path())
			return next(c)
		}
	})
	e.GET("/users/:id", func(c echo.Context) error { return c.String(http.StatusOK, "user "+c.Param("id")) })
	e.GET("/stream", func(c echo.Context) error {
		for _, part := range parts {
			io.WriteString(c.Response(), part)
			c.Response().Flush()
		}
		return nil
	})
	e.GET("/panic", func(echo.Context) error { panic("exploded") })
	e.GET("/hijack", func(c echo.Context) error {
		hijack(c.Response().Hijack())
		return nil
	})
	e.File("/file", "go.mod")
	return e
}

var parts = []string{"one ", "two ", "three"}

// hijack answers on the connection itself.
func hijack(conn net.Conn, buffer *bufio.ReadWriter, err error) {
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	buffer.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhijacked")
	buffer.Flush()
}

func TestRouters(t *testing.T) {
	file, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range apps {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(one.app)
			defer server.Close()
			for _, c := range []struct {
				path     string
				status   int
				body     string
				route    string
				measured int
			}{
				{"/users/7", 200, "user 7", one.user, 1},
				{"/stream", 200, "one two three", "/stream", 1},
				{"/panic", 500, "", "/panic", 1},
				{"/file", 200, string(file), "/file", 1},
				{"/hijack", 200, "hijacked", "", 0},
				{"/nowhere", 404, "", "", 1},
			} {
				r, err := http.NewRequest("GET", server.URL+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Request-Start", strconv.FormatInt(time.Now().Unix(), 10))
				response, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != c.status || c.body != "" && string(body) != c.body {
					t.Errorf("%s: status %d, body %q, want %d and %q", c.path, response.StatusCode, body, c.status, c.body)
				}
				if got := response.Header.Get("X-Route"); got != c.route {
					t.Errorf("%s: X-Route %q, want %q", c.path, got, c.route)
				}
				for _, header := range []string{"X-Service-Time", "X-Worker"} {
					if got := response.Header[header]; len(got) != c.measured {
						t.Errorf("%s: %s %q, want %d", c.path, header, got, c.measured)
					}
				}
			}
		})
	}
}

// The span of otelhttp gets the attributes, and no second span is started.
func TestSpanOfOtelhttp(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	measured := sojourn.New(sojourn.Observe(sojournotel.New(sojournotel.WithTracerProvider(provider))))
	handler := otelhttp.NewHandler(measured(ginRouter()), "app", otelhttp.WithTracerProvider(provider))
	r := httptest.NewRequest("GET", "/users/7", nil)
	r.Header.Set("X-Request-Start", strconv.FormatInt(time.Now().UnixMilli(), 10))
	handler.ServeHTTP(httptest.NewRecorder(), r)
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].InstrumentationScope().Name != otelhttp.ScopeName {
		t.Fatalf("spans %v, want one of otelhttp", ended)
	}
	got := map[string]bool{}
	for _, one := range ended[0].Attributes() {
		got[string(one.Key)] = true
	}
	for _, name := range []string{"queueing.delay", "queueing.service_time", "queueing.status", "queueing.worker"} {
		if !got[name] {
			t.Errorf("the span has no %s", name)
		}
	}
}
