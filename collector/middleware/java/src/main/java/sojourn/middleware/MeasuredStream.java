package sojourn.middleware;

import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import java.io.IOException;

/** The output stream of a {@link MeasuredResponse}. */
final class MeasuredStream extends ServletOutputStream {

    private final ServletOutputStream target;
    private final MeasuredResponse response;

    MeasuredStream(ServletOutputStream target, MeasuredResponse response) {
        this.target = target;
        this.response = response;
    }

    ServletOutputStream target() {
        return target;
    }

    @Override
    public void write(int one) throws IOException {
        response.beforeWrite(1);
        target.write(one);
    }

    @Override
    public void write(byte[] bytes) throws IOException {
        response.beforeWrite(bytes.length);
        target.write(bytes);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        response.beforeWrite(length);
        target.write(bytes, offset, length);
    }

    @Override
    public void print(String text) throws IOException {
        response.beforeWrite(text == null ? 4 : text.length());
        target.print(text);
    }

    @Override
    public void println() throws IOException {
        response.beforeWrite(2);
        target.println();
    }

    @Override
    public void println(String text) throws IOException {
        response.beforeWrite(text == null ? 6 : text.length() + 2);
        target.println(text);
    }

    @Override
    public void flush() throws IOException {
        response.setFigures();
        target.flush();
    }

    @Override
    public void close() throws IOException {
        response.setFigures();
        target.close();
    }

    @Override
    public boolean isReady() {
        return target.isReady();
    }

    @Override
    public void setWriteListener(WriteListener listener) {
        target.setWriteListener(listener);
    }
}
