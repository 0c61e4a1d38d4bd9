package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.catalina.core.StandardContext;
import org.apache.catalina.startup.Constants;
import org.apache.catalina.startup.ContextConfig;
import org.apache.catalina.startup.Tomcat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The text of the README for web.xml, in Tomcat. */
class WebXmlTest {

    /** Responds in another thread, and with an error page. */
    public static final class Shop extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            if (request.getServletPath().equals("/error-page")) {
                response.getWriter().print("page of " + request.getDispatcherType());
            } else if (request.getServletPath().equals("/refuse")) {
                response.sendError(409);
            } else {
                var context = request.startAsync();
                context.start(context::complete);
            }
        }
    }

    private static String webXml() throws IOException {
        String readme = Files.readString(Path.of("README.md"));
        Matcher block = Pattern.compile("```xml\n(<filter>.*?)```", Pattern.DOTALL).matcher(readme);
        assertTrue(block.find(), "README.md has no block for web.xml");
        String filter = block.group(1);
        String option = "<init-param><param-name>serverTiming</param-name><param-value>true</param-value></init-param>";
        // The schema has init-params before async-supported.
        String configured = filter.replace("<async-supported>", option + "<async-supported>");
        assertTrue(configured.length() > filter.length(), filter);
        return """
                <web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
                %s
                <servlet>
                  <servlet-name>shop</servlet-name>
                  <servlet-class>%s</servlet-class>
                  <async-supported>true</async-supported>
                </servlet>
                <servlet-mapping><servlet-name>shop</servlet-name><url-pattern>/*</url-pattern></servlet-mapping>
                <servlet-mapping><servlet-name>shop</servlet-name><url-pattern>/refuse</url-pattern></servlet-mapping>
                <servlet-mapping><servlet-name>shop</servlet-name><url-pattern>/error-page</url-pattern></servlet-mapping>
                <error-page><error-code>409</error-code><location>/error-page</location></error-page>
                </web-app>
                """
                .formatted(configured, Shop.class.getName());
    }

    @Test
    void filterOfReadmeMeasuresAsynchronousResponsesAndErrorPages(@TempDir Path folder) throws Exception {
        Path application = Files.createDirectories(folder.resolve("app/WEB-INF")).getParent();
        Files.writeString(application.resolve("WEB-INF/web.xml"), webXml());
        Server.quiet("org.apache");
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.toString());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        StandardContext context = new StandardContext();
        context.setPath("");
        context.setDocBase(application.toString());
        context.setParentClassLoader(WebXmlTest.class.getClassLoader());
        ContextConfig config = new ContextConfig();
        config.setDefaultWebXml(Constants.NoDefaultWebXml);
        context.addLifecycleListener(config);
        tomcat.getHost().addChild(context);
        tomcat.start();
        try {
            assertTrue(context.getState().isAvailable());
            Client client = new Client(tomcat.getConnector().getLocalPort());
            Client.Reply async = client.get("/any");
            assertEquals(200, async.status());
            assertTrue(async.header("Server-Timing").startsWith("app;dur="), async.toString());
            Client.Reply refused = client.get("/refuse", "X-Request-Start", "junk");
            assertEquals("page of ERROR", refused.body());
            assertEquals("/refuse", refused.header("X-Route"));
        } finally {
            tomcat.stop();
            tomcat.destroy();
        }
    }
}
