import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import javax.xml.XMLConstants;
import javax.xml.parsers.SAXParserFactory;
import javax.xml.transform.ErrorListener;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;
import javax.xml.validation.Schema;
import javax.xml.validation.SchemaFactory;
import org.xml.sax.InputSource;
import org.xml.sax.SAXParseException;
import org.xml.sax.XMLReader;
import org.xml.sax.helpers.DefaultHandler;

/**
 * What Xerces-J and Saxon 6.5 make of files: a question a line, an answer a line.
 *
 * wf FILE | xsd SCHEMA FILE | xslt STYLESHEET FILE OUT, fields separated by tabs. Answers: ok, no REASON, or
 * bad REASON where the schema or stylesheet itself is refused.
 */
public class Oracle {
  private static final Map<String, Object> SCHEMAS = new HashMap<>();

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(answer(line.split("\t")));
      System.out.flush();
    }
  }

  private static String answer(String[] question) {
    try {
      switch (question[0]) {
        case "wf":
          wellFormed(question[1]);
          return "ok";
        case "xsd":
          return valid(question[1], question[2]);
        case "xslt":
          return transformed(question[1], question[2], question[3]);
        default:
          return "bad question";
      }
    } catch (Throwable refused) {
      return "no " + oneLine(refused);
    }
  }

  private static void wellFormed(String file) throws Exception {
    SAXParserFactory factory = new org.apache.xerces.jaxp.SAXParserFactoryImpl();
    factory.setNamespaceAware(true);
    factory.setFeature("http://xml.org/sax/features/external-general-entities", false);
    factory.setFeature("http://xml.org/sax/features/external-parameter-entities", false);
    factory.setFeature("http://apache.org/xml/features/nonvalidating/load-external-dtd", false);
    XMLReader reader = factory.newSAXParser().getXMLReader();
    reader.setContentHandler(new DefaultHandler());
    reader.setErrorHandler(new Strict());
    try (FileInputStream in = new FileInputStream(file)) {
      reader.parse(new InputSource(in));
    }
  }

  private static String valid(String schemaFile, String file) throws Exception {
    Object known = SCHEMAS.get(schemaFile);
    if (known == null) {
      known = compiled(schemaFile);
      SCHEMAS.clear();
      SCHEMAS.put(schemaFile, known);
    }
    if (!(known instanceof Schema)) {
      return "bad " + known;
    }
    javax.xml.validation.Validator validator = ((Schema) known).newValidator();
    validator.setErrorHandler(new Strict());
    validator.validate(new StreamSource(new File(file)));
    return "ok";
  }

  private static Object compiled(String file) {
    try {
      SchemaFactory factory = new org.apache.xerces.jaxp.validation.XMLSchemaFactory();
      factory.setErrorHandler(new Strict());
      return factory.newSchema(new File(file));
    } catch (Throwable refused) {
      return oneLine(refused);
    }
  }

  private static String transformed(String stylesheet, String file, String out) throws Exception {
    TransformerFactory factory = new com.icl.saxon.TransformerFactoryImpl();
    factory.setErrorListener(new Quiet());
    javax.xml.transform.Transformer transformer;
    try {
      transformer = factory.newTransformer(new StreamSource(new File(stylesheet)));
    } catch (TransformerException refused) {
      return "bad " + oneLine(refused);
    }
    transformer.setErrorListener(new Quiet());
    transformer.transform(new StreamSource(new File(file)), new StreamResult(new File(out)));
    return "ok";
  }

  private static String oneLine(Throwable refused) {
    return String.valueOf(refused.getMessage()).replaceAll("\\s+", " ");
  }

  private static final class Strict extends DefaultHandler {
    @Override
    public void error(SAXParseException fault) throws SAXParseException {
      throw fault;
    }

    @Override
    public void fatalError(SAXParseException fault) throws SAXParseException {
      throw fault;
    }
  }

  private static final class Quiet implements ErrorListener {
    @Override
    public void warning(TransformerException fault) {}

    @Override
    public void error(TransformerException fault) throws TransformerException {
      throw fault;
    }

    @Override
    public void fatalError(TransformerException fault) throws TransformerException {
      throw fault;
    }
  }
}
