import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.util.logging.Level;
import java.util.logging.Logger;

import jakarta.xml.ws.Service;
import org.apache.cxf.tools.common.ToolContext;
import org.apache.cxf.tools.wsdlto.WSDLToJava;

/**
 * CXF from the URL of a description alone: {@code CxfDescribed.java URL}. wsdl2java makes a client below java.io.tmpdir, which then calls.
 * Prints what it got; the test compares.
 */
class CxfDescribed {
    public static void main(String[] arguments) throws Exception {
        Logger.getLogger("").setLevel(Level.SEVERE);
        var folder = Files.createTempDirectory("cxf");
        var path = folder.toString();
        var options = new String[] {"-compile", "-p", "made", "-d", path, "-classdir", path, arguments[0]};
        new WSDLToJava(options).run(new ToolContext());
        try (var made = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            var type = made.loadClass("made.P");
            var service = (Service) made.loadClass("made.S").getConstructor().newInstance();
            System.out.println(type.getMethod("get", int.class).invoke(service.getPort(type), 5));
        }
    }
}
