package sojourn.middleware;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;

/** Keeps the measured response in asynchronous requests, whose headers leave in another thread. */
final class MeasuredRequest extends HttpServletRequestWrapper {

    private final MeasuredResponse response;
    private final Exchange exchange;
    private boolean async;

    MeasuredRequest(HttpServletRequest request, MeasuredResponse response, Exchange exchange) {
        super(request);
        this.response = response;
        this.exchange = exchange;
    }

    /** Notes that the container serves the request again, in the asynchronous dispatch or as an error page. */
    void beginDispatch() {
        async = false;
    }

    /** Returns whether the current dispatch has made the request asynchronous, even if another thread has completed it. */
    boolean isAsync() {
        return async;
    }

    @Override
    public AsyncContext startAsync() {
        response.setFigures();
        // Without arguments the container would continue with its own response, which is not measured.
        return started(super.startAsync(this, response), true);
    }

    @Override
    public AsyncContext startAsync(ServletRequest asyncRequest, ServletResponse asyncResponse) {
        response.setFigures();
        return started(super.startAsync(asyncRequest, asyncResponse), false);
    }

    private AsyncContext started(AsyncContext context, boolean original) {
        async = true;
        context.addListener(new AsyncEnd(exchange, response));
        return new MeasuredAsyncContext(context, response, original);
    }

    @Override
    public AsyncContext getAsyncContext() {
        return new MeasuredAsyncContext(super.getAsyncContext(), response, false);
    }
}
