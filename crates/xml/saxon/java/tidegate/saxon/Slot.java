package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.sf.saxon.event.PipelineConfiguration;
import net.sf.saxon.event.Receiver;
import net.sf.saxon.expr.instruct.TerminationException;
import net.sf.saxon.om.Durability;
import net.sf.saxon.om.NodeInfo;
import net.sf.saxon.s9api.Location;
import net.sf.saxon.s9api.SaxonApiException;
import net.sf.saxon.s9api.XdmNode;
import net.sf.saxon.s9api.XmlProcessingError;
import net.sf.saxon.s9api.Xslt30Transformer;
import net.sf.saxon.trans.SaxonErrorCode;
import net.sf.saxon.trans.XPathException;
import net.sf.saxon.tree.tiny.TinyBuilder;

/** What one thread works with: memory that serves message after message. */
final class Slot {
    /** How a run ended, as `vm.rs` numbers it. */
    static final int DONE = 0, REFUSED = 1, BAD_INPUT = 2, TOO_LARGE = 3, MEMORY = 4, STACK = 5, STOPPED = 6;

    /** Where the gateway puts a message. */
    byte[] in = new byte[16 << 10];

    /** Where the result is, or what is said about the failure. */
    byte[] out;

    private final Output output = new Output();

    /** Stylesheets make names too; this often it is looked how far the numbers have come. */
    private static final int PROBE_EVERY = 1024;

    private int runs;

    /** What the message said that ended the run; null where none did. */
    private String ending;

    /** Compiles the parts that stand in `in`. Without a stylesheet, `out` says in lines of `uri line column text` what is wrong. */
    Sheet compile() {
        output.begin(Integer.MAX_VALUE - 8);
        List<XmlProcessingError> wrong = new ArrayList<>();
        Sheet sheet = null;
        try {
            int[] at = {0};
            Map<String, byte[]> modules = parts(at);
            Map<String, String> values = new LinkedHashMap<>();
            parts(at).forEach((name, value) -> values.put(name, new String(value, StandardCharsets.UTF_8)));
            sheet = Sheet.compile(modules, values, wrong);
        } catch (SaxonApiException | XPathException error) {
            if (wrong.isEmpty()) {
                line(null, String.valueOf(error.getMessage()));
            }
        } catch (Throwable error) {
            line(null, error.toString());
        }
        for (XmlProcessingError error : wrong) {
            line(error.getLocation(), error.getMessage());
        }
        out = output.bytes;
        return sheet;
    }

    /** How long what `compile` said is. */
    int said() {
        return output.length;
    }

    private void line(Location location, String text) {
        String uri = location == null || location.getSystemId() == null ? "" : location.getSystemId();
        int line = location == null ? -1 : location.getLineNumber();
        int column = location == null ? -1 : location.getColumnNumber();
        String plain = text.replaceAll("\\s+", " ").trim();
        byte[] bytes = (uri + '\t' + line + '\t' + column + '\t' + plain + '\n').getBytes(StandardCharsets.UTF_8);
        output.write(bytes, 0, bytes.length);
    }

    /** Names and contents, as `feed.rs` writes them. */
    private Map<String, byte[]> parts(int[] at) {
        Map<String, byte[]> parts = new LinkedHashMap<>();
        for (int count = Feed.number(in, at); count > 0; count--) {
            String name = new String(part(at), StandardCharsets.UTF_8);
            parts.put(name, part(at));
        }
        return parts;
    }

    private byte[] part(int[] at) {
        int length = Feed.number(in, at);
        byte[] part = Arrays.copyOfRange(in, at[0], at[0] + length);
        at[0] += length;
        return part;
    }

    /** Makes room for so many bytes. */
    byte[] reserve(int length) {
        if (in.length < length || in.length > Output.KEPT_BYTES_MAX) {
            in = new byte[Math.max(length, 16 << 10)];
        }
        return in;
    }

    /** Transforms; gives how it ended in the upper half and the length of `out` in the lower. */
    long run(Sheet sheet, int length, boolean json, int outMax) {
        int status;
        output.begin(outMax);
        boolean probe = ++runs % PROBE_EVERY == 0;
        if (probe) {
            Spaces.sweep();
        }
        Sheet.Compiled compiled = sheet.compiled(probe);
        Spaces.enter();
        try {
            transform(compiled, length, json);
            status = DONE;
        } catch (SaxonApiException error) {
            status = failed(error);
        } catch (XPathException error) {
            status = failed(error);
        } catch (Throwable error) {
            status = failed(error);
            if (status == STOPPED) {
                // It may have been in the middle of anything.
                sheet.spoil(compiled);
            }
        } finally {
            Spaces.leave();
        }
        out = output.bytes;
        return (long) status << 32 | output.length;
    }

    private void transform(Sheet.Compiled compiled, int length, boolean json)
            throws SaxonApiException, XPathException {
        Xslt30Transformer transformer = compiled.executable.load30();
        transformer.setErrorReporter(error -> { });
        ending = null;
        transformer.setMessageHandler(message -> {
            if (message.isTerminate()) {
                ending = message.getContent().getStringValue().trim();
            }
        });
        transformer.setResultDocumentHandler(uri -> {
            throw new Refused(Locked.REFUSED + uri);
        });
        if (!compiled.parameters.isEmpty()) {
            transformer.setStylesheetParameters(compiled.parameters);
        }
        XdmNode message = new XdmNode(tree(compiled, transformer, length, json));
        transformer.setGlobalContextItem(message, true);
        transformer.applyTemplates(message, new Printer(output, compiled.form, compiled.names));
    }

    private NodeInfo tree(Sheet.Compiled compiled, Xslt30Transformer transformer, int length, boolean json)
            throws XPathException {
        PipelineConfiguration pipe = transformer.getUnderlyingController().makePipelineConfiguration();
        TinyBuilder builder = new TinyBuilder(pipe);
        builder.setDurability(Durability.TEMPORARY);
        Receiver to = builder;
        if (compiled.strips) {
            to = transformer.getUnderlyingController().makeStripper(builder);
        }
        if (json) {
            Feed.wrap(in, length, compiled.names, to, pipe);
        } else {
            Feed.tell(in, length, compiled.names, to, pipe);
        }
        return builder.getCurrentRoot();
    }

    private int failed(Throwable error) {
        for (Throwable cause = error; cause != null && cause != cause.getCause(); cause = cause.getCause()) {
            if (cause instanceof Output.Full) {
                return said(TOO_LARGE, "");
            }
            if (cause instanceof OutOfMemoryError) {
                return said(MEMORY, "");
            }
            if (cause instanceof StackOverflowError || cause instanceof XPathException.StackOverflow) {
                return said(STACK, "");
            }
            if (cause instanceof Machine.Stop) {
                return said(STOPPED, "");
            }
            if (cause instanceof TerminationException && ending != null && !ending.isEmpty()) {
                return said(REFUSED, ending);
            }
            if (cause instanceof XPathException) {
                XPathException dynamic = (XPathException) cause;
                // What Saxon makes of an overflow of the stack, which each call on the way up says a word about.
                if (dynamic.hasErrorCode(SaxonErrorCode.SXLM0001)) {
                    return said(STACK, "");
                }
                boolean bad = dynamic.hasErrorCode("FOJS0001");
                return said(bad ? BAD_INPUT : REFUSED, dynamic.getMessage());
            }
        }
        return said(REFUSED, String.valueOf(error.getMessage()));
    }

    private int said(int status, String text) {
        output.begin(Output.KEPT_BYTES_MAX);
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        output.write(bytes, 0, Math.min(bytes.length, Output.KEPT_BYTES_MAX));
        return status;
    }

    /** A stylesheet asked for what it does not get. */
    static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused(String what) {
            super(what);
        }
    }
}
