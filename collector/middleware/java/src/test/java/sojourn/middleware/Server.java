package sojourn.middleware;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.ErrorPage;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.eclipse.jetty.ee10.servlet.ErrorPageErrorHandler;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** A real servlet container on a free loopback port. */
interface Server extends AutoCloseable {

    /** What a container serves. */
    final class App {
        final Map<String, HttpServlet> servlets = new LinkedHashMap<>();
        List<Filter> filters = List.of();
        Map<String, String> initParameters = Map.of();
        String contextPath = "";
        Integer errorPageStatus;
        String errorPage;
        int threads = 8;
    }

    int port();

    @Override
    void close();

    static Server tomcat(App app) throws IOException {
        quiet("org.apache");
        Path base = Files.createTempDirectory("sojourn-tomcat");
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(base.toString());
        tomcat.setPort(0);
        tomcat.setSilent(true);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.getConnector().setProperty("maxThreads", Integer.toString(app.threads));
        tomcat.getConnector().setProperty("minSpareThreads", "1");
        // The default of 60 s would delay the end of a test that leaves a connection open.
        tomcat.getConnector().setProperty("connectionTimeout", "5000");
        Context context = tomcat.addContext(app.contextPath, base.toString());
        app.servlets.forEach((pattern, servlet) -> {
            Wrapper wrapper = Tomcat.addServlet(context, pattern, servlet);
            wrapper.setAsyncSupported(true);
            context.addServletMappingDecoded(pattern, pattern);
        });
        for (Filter filter : app.filters) {
            FilterDef definition = new FilterDef();
            definition.setFilterName(filter.toString());
            definition.setFilter(filter);
            definition.setAsyncSupported("true");
            app.initParameters.forEach(definition::addInitParameter);
            context.addFilterDef(definition);
            FilterMap map = new FilterMap();
            map.setFilterName(filter.toString());
            map.addURLPattern("/*");
            for (DispatcherType type : EnumSet.allOf(DispatcherType.class)) {
                map.setDispatcher(type.name());
            }
            context.addFilterMap(map);
        }
        if (app.errorPage != null) {
            ErrorPage page = new ErrorPage();
            page.setErrorCode(app.errorPageStatus);
            page.setLocation(app.errorPage);
            context.addErrorPage(page);
        }
        try {
            tomcat.start();
        } catch (LifecycleException error) {
            throw new IOException(error);
        }
        if (!context.getState().isAvailable()) {
            stop(tomcat);
            throw new IOException("the web application did not start");
        }
        return new Server() {
            @Override
            public int port() {
                return tomcat.getConnector().getLocalPort();
            }

            @Override
            public void close() {
                stop(tomcat);
            }
        };
    }

    private static void stop(Tomcat tomcat) {
        try {
            tomcat.stop();
            tomcat.destroy();
        } catch (LifecycleException error) {
            throw new IllegalStateException(error);
        }
    }

    static Server jetty(App app) throws IOException {
        quiet("org.eclipse.jetty");
        org.eclipse.jetty.server.Server jetty = new org.eclipse.jetty.server.Server(new QueuedThreadPool(app.threads + 4));
        ServerConnector connector = new ServerConnector(jetty, 1, 1);
        connector.setHost("127.0.0.1");
        jetty.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler(app.contextPath.isEmpty() ? "/" : app.contextPath);
        app.servlets.forEach((pattern, servlet) -> {
            ServletHolder holder = new ServletHolder(servlet);
            holder.setAsyncSupported(true);
            context.addServlet(holder, pattern);
        });
        for (Filter filter : app.filters) {
            FilterHolder holder = new FilterHolder(filter);
            holder.setAsyncSupported(true);
            holder.setInitParameters(app.initParameters);
            context.addFilter(holder, "/*", EnumSet.allOf(DispatcherType.class));
        }
        if (app.errorPage != null) {
            ErrorPageErrorHandler pages = new ErrorPageErrorHandler();
            pages.addErrorPage(app.errorPageStatus, app.errorPage);
            context.setErrorHandler(pages);
        }
        jetty.setHandler(context);
        try {
            jetty.start();
        } catch (Exception error) {
            throw new IOException(error);
        }
        return new Server() {
            @Override
            public int port() {
                return connector.getLocalPort();
            }

            @Override
            public void close() {
                try {
                    jetty.stop();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
        };
    }

    /** Keeps the logs of the containers out of the output; errors that a servlet throws on purpose are among them. */
    static void quiet(String logger) {
        QUIET.computeIfAbsent(logger, Logger::getLogger).setLevel(Level.OFF);
    }

    /** Loggers are collected if no variable refers to them. */
    Map<String, Logger> QUIET = new java.util.concurrent.ConcurrentHashMap<>();
}
