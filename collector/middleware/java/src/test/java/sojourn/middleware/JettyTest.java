package sojourn.middleware;

import java.io.IOException;

/** {@link ContainerTest} in Jetty. */
class JettyTest extends ContainerTest {

    @Override
    Server start(Server.App app) throws IOException {
        return Server.jetty(app);
    }
}
