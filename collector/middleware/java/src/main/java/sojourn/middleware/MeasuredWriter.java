package sojourn.middleware;

import java.io.PrintWriter;

/** The writer of a {@link MeasuredResponse}; the print methods of the base class end in the methods below. */
final class MeasuredWriter extends PrintWriter {

    private final PrintWriter target;
    private final MeasuredResponse response;

    MeasuredWriter(PrintWriter target, MeasuredResponse response) {
        super(target);
        this.target = target;
        this.response = response;
    }

    PrintWriter target() {
        return target;
    }

    @Override
    public void write(int letter) {
        response.beforeWrite(1);
        target.write(letter);
    }

    @Override
    public void write(char[] letters, int offset, int length) {
        response.beforeWrite(length);
        target.write(letters, offset, length);
    }

    @Override
    public void write(String text, int offset, int length) {
        response.beforeWrite(length);
        target.write(text, offset, length);
    }

    @Override
    public void println() {
        response.beforeWrite(2);
        target.println();
    }

    @Override
    public void flush() {
        response.setFigures();
        target.flush();
    }

    @Override
    public void close() {
        response.setFigures();
        target.close();
    }

    @Override
    public boolean checkError() {
        // It flushes.
        response.setFigures();
        return target.checkError();
    }
}
