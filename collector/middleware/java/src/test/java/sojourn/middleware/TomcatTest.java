package sojourn.middleware;

import java.io.IOException;

/** {@link ContainerTest} in Tomcat. */
class TomcatTest extends ContainerTest {

    @Override
    Server start(Server.App app) throws IOException {
        return Server.tomcat(app);
    }
}
