import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.catalina.Context;
import org.apache.catalina.authenticator.BasicAuthenticator;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.core.StandardThreadExecutor;
import org.apache.catalina.manager.JMXProxyServlet;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.AbstractProtocol;
import org.apache.tomcat.util.descriptor.web.LoginConfig;
import org.apache.tomcat.util.descriptor.web.SecurityCollection;
import org.apache.tomcat.util.descriptor.web.SecurityConstraint;

/**
 * Tomcat with one thread, in a shared executor, for an app, and a second connector, with threads of its own, for the
 * JMX proxy. Arguments: folder, password of the user reader, file until which a request to the app lasts. Prints both ports.
 */
public final class QueuedTomcat {
    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[0]);
        tomcat.addUser("reader", arguments[1]);
        tomcat.addRole("reader", "manager-jmx");
        StandardThreadExecutor executor = new StandardThreadExecutor();
        executor.setName("workers");
        executor.setMinSpareThreads(1);
        executor.setMaxThreads(1);
        tomcat.getService().addExecutor(executor);
        Connector app = connector(tomcat);
        ((AbstractProtocol<?>) app.getProtocolHandler()).setExecutor(executor);
        Connector admin = connector(tomcat);
        admin.setProperty("maxThreads", "3");

        Context context = tomcat.addContext("", null);
        Path done = Path.of(arguments[2]);
        Tomcat.addServlet(context, "app", new HttpServlet() {
            @Override
            protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
                while (!Files.exists(done)) {
                    try {
                        Thread.sleep(5);
                    } catch (InterruptedException interrupted) {
                        return;
                    }
                }
                response.getWriter().write("done");
            }
        });
        context.addServletMappingDecoded("/app", "app");
        Tomcat.addServlet(context, "jmx", new JMXProxyServlet());
        context.addServletMappingDecoded("/manager/jmxproxy/*", "jmx");
        SecurityCollection protectedPart = new SecurityCollection();
        protectedPart.addPattern("/manager/*");
        SecurityConstraint constraint = new SecurityConstraint();
        constraint.addCollection(protectedPart);
        constraint.addAuthRole("manager-jmx");
        context.addConstraint(constraint);
        context.addSecurityRole("manager-jmx");
        context.setLoginConfig(new LoginConfig("BASIC", "manager", null, null));
        context.getPipeline().addValve(new BasicAuthenticator());

        tomcat.start();
        System.out.println(app.getLocalPort() + " " + admin.getLocalPort());
        tomcat.getServer().await();
    }

    private static Connector connector(Tomcat tomcat) {
        Connector connector = new Connector();
        connector.setPort(0);
        connector.setProperty("address", "127.0.0.1");
        tomcat.getService().addConnector(connector);
        return connector;
    }
}
