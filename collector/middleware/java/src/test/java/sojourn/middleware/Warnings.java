package sojourn.middleware;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** The messages in the log of the package, until it is closed; they appear nowhere else. */
final class Warnings extends Handler implements AutoCloseable {

    private final Logger logger = Logger.getLogger("sojourn.middleware");
    private final List<String> messages = new CopyOnWriteArrayList<>();

    Warnings() {
        logger.addHandler(this);
        logger.setUseParentHandlers(false);
    }

    List<String> messages() {
        return messages;
    }

    @Override
    public void publish(LogRecord line) {
        messages.add(line.getMessage());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {
        logger.removeHandler(this);
        logger.setUseParentHandlers(true);
    }
}
