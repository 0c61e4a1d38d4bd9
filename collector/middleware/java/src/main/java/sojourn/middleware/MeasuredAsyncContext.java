package sojourn.middleware;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;

/** Sets the figures before an asynchronous request is completed or dispatched. */
final class MeasuredAsyncContext implements AsyncContext {

    private final AsyncContext target;
    private final MeasuredResponse response;
    private final boolean original;

    MeasuredAsyncContext(AsyncContext target, MeasuredResponse response, boolean original) {
        this.target = target;
        this.response = response;
        this.original = original;
    }

    @Override
    public void complete() {
        response.setFigures();
        target.complete();
    }

    @Override
    public void dispatch() {
        response.setFigures();
        target.dispatch();
    }

    @Override
    public void dispatch(String path) {
        response.setFigures();
        target.dispatch(path);
    }

    @Override
    public void dispatch(ServletContext context, String path) {
        response.setFigures();
        target.dispatch(context, path);
    }

    @Override
    public ServletRequest getRequest() {
        return target.getRequest();
    }

    @Override
    public ServletResponse getResponse() {
        return target.getResponse();
    }

    @Override
    public boolean hasOriginalRequestAndResponse() {
        return original || target.hasOriginalRequestAndResponse();
    }

    @Override
    public void start(Runnable task) {
        target.start(task);
    }

    @Override
    public void addListener(AsyncListener listener) {
        target.addListener(listener);
    }

    @Override
    public void addListener(AsyncListener listener, ServletRequest request, ServletResponse listenerResponse) {
        target.addListener(listener, request, listenerResponse);
    }

    @Override
    public <T extends AsyncListener> T createListener(Class<T> type) throws ServletException {
        return target.createListener(type);
    }

    @Override
    public void setTimeout(long millis) {
        target.setTimeout(millis);
    }

    @Override
    public long getTimeout() {
        return target.getTimeout();
    }
}
