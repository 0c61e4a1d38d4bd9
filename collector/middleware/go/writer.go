package sojourn

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// writer is the http.ResponseWriter of the handler. It sets the headers of the middleware when the handler sends its
// own. The optional interfaces are those of view.
type writer struct {
	http.ResponseWriter
	x *exchange
}

// Unwrap returns the server's writer, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the response headers. An informational status does not end the service time; 101 does.
func (w *writer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.send(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(data []byte) (int, error) {
	w.send(http.StatusOK)
	return w.ResponseWriter.Write(data)
}

// WriteString spares the copy if the server's writer can.
func (w *writer) WriteString(text string) (int, error) {
	w.send(http.StatusOK)
	return io.WriteString(w.ResponseWriter, text)
}

// FlushError is for http.ResponseController, which would otherwise flush the server's writer without the headers.
func (w *writer) FlushError() error {
	if canFlush(w.ResponseWriter) {
		w.send(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// send ends the service time and sets the headers; only the first call counts.
func (w *writer) send(status int) {
	if w.x.stop(status) {
		w.x.addHeaders(w.ResponseWriter.Header())
		if w.x.present != nil && (status == http.StatusSwitchingProtocols || hasEvents(w.ResponseWriter.Header())) {
			w.x.present.leave()
		}
	}
}

// canFlush returns whether http.ResponseController can flush the writer.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

// The optional interfaces, each a type of its own, for view to combine.
type (
	flusher       struct{ w *writer }
	hijacker      struct{ w *writer }
	readerFrom    struct{ w *writer }
	pusher        struct{ w *writer }
	closeNotifier struct{ w *writer }
)

func (f flusher) Flush() {
	f.w.send(http.StatusOK)
	f.w.ResponseWriter.(http.Flusher).Flush()
}

// Hijack ends the service time: what the handler sends from now on is not HTTP to this middleware.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := h.w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.w.x.stop(0)
		h.w.x.present.leave()
	}
	return conn, buffer, err
}

// ReadFrom sends the headers with the first bytes of the source, which can be slow, and leaves the rest to the server,
// which can send a file without copying it.
func (f readerFrom) ReadFrom(source io.Reader) (int64, error) {
	written, err := f.w.copyFirst(source)
	if err != nil {
		if err == io.EOF {
			err = nil
		}
		return written, err
	}
	rest, err := f.w.ResponseWriter.(io.ReaderFrom).ReadFrom(source)
	return written + rest, err
}

// copyFirst writes the first bytes of a source, unless the headers are sent already.
func (w *writer) copyFirst(source io.Reader) (int64, error) {
	if w.x.stopped() {
		return 0, nil
	}
	buffer := make([]byte, 512) // what the server looks at to detect the type of the content
	for {
		read, err := source.Read(buffer)
		if read > 0 {
			written, writeErr := w.Write(buffer[:read])
			if writeErr != nil {
				err = writeErr
			}
			return int64(written), err
		}
		if err != nil {
			return 0, err
		}
	}
}

func (p pusher) Push(target string, options *http.PushOptions) error {
	return p.w.ResponseWriter.(http.Pusher).Push(target, options)
}

// CloseNotify is deprecated, but gin's Context.Stream needs it.
func (c closeNotifier) CloseNotify() <-chan bool {
	return c.w.ResponseWriter.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // see above
}

// view returns the writer with exactly those of the optional interfaces that the server's writer has. Handlers and
// frameworks decide by a type assertion what they can do.
func (w *writer) view() http.ResponseWriter {
	number := 0
	for bit, supported := range [...]bool{
		is[http.Flusher](w.ResponseWriter),
		is[http.Hijacker](w.ResponseWriter),
		is[io.ReaderFrom](w.ResponseWriter),
		is[http.Pusher](w.ResponseWriter),
		is[http.CloseNotifier](w.ResponseWriter),
	} {
		if supported {
			number |= 1 << bit
		}
	}
	return views[number](w)
}

func is[T any](w http.ResponseWriter) bool {
	_, ok := w.(T)
	return ok
}

// views has a constructor for every combination, numbered as in view.
var views = [...]func(*writer) http.ResponseWriter{
	func(w *writer) http.ResponseWriter { return w },
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
		}{w, flusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
		}{w, hijacker{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
		}{w, flusher{w}, hijacker{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			readerFrom
		}{w, readerFrom{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			readerFrom
		}{w, flusher{w}, readerFrom{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			readerFrom
		}{w, hijacker{w}, readerFrom{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
		}{w, flusher{w}, hijacker{w}, readerFrom{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			pusher
		}{w, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			pusher
		}{w, flusher{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			pusher
		}{w, hijacker{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			pusher
		}{w, flusher{w}, hijacker{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			readerFrom
			pusher
		}{w, readerFrom{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			readerFrom
			pusher
		}{w, flusher{w}, readerFrom{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			readerFrom
			pusher
		}{w, hijacker{w}, readerFrom{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
			pusher
		}{w, flusher{w}, hijacker{w}, readerFrom{w}, pusher{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			closeNotifier
		}{w, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			closeNotifier
		}{w, flusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			closeNotifier
		}{w, hijacker{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			closeNotifier
		}{w, flusher{w}, hijacker{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			readerFrom
			closeNotifier
		}{w, readerFrom{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			readerFrom
			closeNotifier
		}{w, flusher{w}, readerFrom{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			readerFrom
			closeNotifier
		}{w, hijacker{w}, readerFrom{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
			closeNotifier
		}{w, flusher{w}, hijacker{w}, readerFrom{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			pusher
			closeNotifier
		}{w, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			pusher
			closeNotifier
		}{w, flusher{w}, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			pusher
			closeNotifier
		}{w, hijacker{w}, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			pusher
			closeNotifier
		}{w, flusher{w}, hijacker{w}, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			readerFrom
			pusher
			closeNotifier
		}{w, readerFrom{w}, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			readerFrom
			pusher
			closeNotifier
		}{w, flusher{w}, readerFrom{w}, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			hijacker
			readerFrom
			pusher
			closeNotifier
		}{w, hijacker{w}, readerFrom{w}, pusher{w}, closeNotifier{w}}
	},
	func(w *writer) http.ResponseWriter {
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
			pusher
			closeNotifier
		}{w, flusher{w}, hijacker{w}, readerFrom{w}, pusher{w}, closeNotifier{w}}
	},
}
