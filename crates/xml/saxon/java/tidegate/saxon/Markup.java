package tidegate.saxon;

import java.io.IOException;
import java.util.Arrays;
import net.sf.saxon.event.PipelineConfiguration;
import net.sf.saxon.event.ReceiverOption;
import net.sf.saxon.om.AttributeInfo;
import net.sf.saxon.om.AttributeMap;
import net.sf.saxon.om.NamespaceMap;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.om.NodeName;
import net.sf.saxon.s9api.Location;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.trans.XPathException;
import net.sf.saxon.type.SchemaType;
import net.sf.saxon.value.Whitespace;

/** A result as XML 1.0 in UTF-8, to the byte what Saxon's own pipeline of serializers makes of it. */
final class Markup extends Result {
    private final Form form;
    private final Names names;

    private boolean declared;
    private boolean tagOpen;
    private int depth;
    private byte[][] open = new byte[16][];
    private NamespaceMap[] scopes = new NamespaceMap[16];

    /** Null: nothing is indented. */
    private final Indent indent;

    Markup(PipelineConfiguration pipe, Output out, Form form, Names names) {
        super(pipe, out);
        this.form = form;
        this.names = names;
        this.indent = form.indent ? new Indent(form.declaration.length > 0) : null;
    }

    @Override
    public void startElement(NodeName name, SchemaType type, AttributeMap attributes, NamespaceMap namespaces,
            Location location, int properties) throws XPathException {
        previousAtomic = false;
        if (indent != null) {
            indent.beforeStart();
        }
        begin();
        if (depth == open.length) {
            open = Arrays.copyOf(open, depth * 2);
            scopes = Arrays.copyOf(scopes, depth * 2);
        }
        NamespaceMap outer = depth == 0 ? NamespaceMap.emptyMap() : scopes[depth - 1];
        byte[] spelled = names.spelled(name);
        open[depth] = spelled;
        scopes[depth++] = namespaces;
        out.byteOf('<');
        out.writeAscii(spelled);
        int column = indent == null ? -1 : indent.start(namespaces, outer, attributes, name);
        boolean first = true;
        if (namespaces != outer) {
            first = declare(namespaces, outer, column);
        }
        for (AttributeInfo attribute : attributes) {
            separate(first, column);
            first = false;
            attribute(attribute);
        }
        tagOpen = true;
    }

    /** Tells the namespaces that the element around has not. True: there was none. */
    private boolean declare(NamespaceMap namespaces, NamespaceMap outer, int column) {
        boolean first = true;
        if (!outer.getDefaultNamespace().isEmpty() && namespaces.getDefaultNamespace().isEmpty()) {
            separate(first, column);
            first = false;
            out.write("xmlns=\"\"");
        }
        String[] prefixes = namespaces.getPrefixArray();
        NamespaceUri[] uris = namespaces.getURIsAsArray();
        for (int i = 0; i < prefixes.length; i++) {
            if (uris[i].equals(outer.getNamespaceUri(prefixes[i]))) {
                continue;
            }
            separate(first, column);
            first = false;
            out.write(prefixes[i].isEmpty() ? "xmlns" : "xmlns:");
            out.write(prefixes[i]);
            out.write("=\"");
            out.escaped(uris[i].toString(), true);
            out.byteOf('"');
        }
        return first;
    }

    private void attribute(AttributeInfo attribute) {
        out.writeAscii(names.spelled(attribute.getNodeName()));
        out.write("=\"");
        int raw = ReceiverOption.NO_SPECIAL_CHARS | ReceiverOption.DISABLE_ESCAPING;
        if ((attribute.getProperties() & raw) == 0) {
            out.escaped(attribute.getValue(), true);
        } else {
            out.write(attribute.getValue());
        }
        out.byteOf('"');
    }

    private void separate(boolean first, int column) {
        if (first || column < 0) {
            out.byteOf(' ');
        } else {
            out.byteOf('\n');
            out.writeRepeatedAscii((byte) ' ', column);
        }
    }

    @Override
    public void endElement() throws XPathException {
        previousAtomic = false;
        byte[] name = open[--depth];
        if (indent != null) {
            indent.beforeEnd();
        }
        if (tagOpen) {
            out.byteOf('/');
            tagOpen = false;
        } else {
            out.byteOf('<');
            out.byteOf('/');
            out.writeAscii(name);
        }
        out.byteOf('>');
        if (indent != null) {
            indent.end();
        }
    }

    @Override
    public void characters(UnicodeString chars, Location location, int properties) throws XPathException {
        previousAtomic = false;
        if (indent == null || !indent.holds(chars, properties)) {
            text(chars, properties);
        }
    }

    private void text(UnicodeString chars, int properties) throws XPathException {
        begin();
        try {
            int raw = ReceiverOption.NO_SPECIAL_CHARS | ReceiverOption.DISABLE_ESCAPING;
            if ((properties & raw) == 0) {
                out.escaped(chars, false);
            } else {
                out.write(chars);
            }
        } catch (IOException error) {
            throw new XPathException(error);
        }
    }

    @Override
    public void processingInstruction(String target, UnicodeString data, Location location, int properties)
            throws XPathException {
        previousAtomic = false;
        if (indent != null) {
            indent.beforeOther();
        }
        begin();
        out.write("<?");
        out.write(target);
        if (!data.isEmpty()) {
            out.byteOf(' ');
            out.write(data);
        }
        out.write("?>");
    }

    @Override
    public void comment(UnicodeString chars, Location location, int properties) throws XPathException {
        previousAtomic = false;
        if (indent != null) {
            indent.beforeOther();
        }
        begin();
        out.write("<!--");
        out.write(chars);
        out.write("-->");
    }

    @Override
    public void close() {
        if (indent != null && indent.afterEnd) {
            begin();
            out.byteOf('\n');
        }
        // Even nothing has a declaration.
        begin();
    }

    private void begin() {
        if (!declared) {
            declared = true;
            out.writeAscii(form.declaration);
        }
        if (tagOpen) {
            out.byteOf('>');
            tagOpen = false;
        }
    }

    /** The white space of `indent="yes"`: three columns a level, none where there is text. */
    private final class Indent {
        private static final int STEP = 3, LINE = 80;

        private boolean sameLine;
        private boolean afterStart;
        private boolean afterEnd;
        /** White space that is written only if none of ours takes its place. */
        private UnicodeString held;
        private int heldProperties;
        private int lines;
        private int columns;
        /** The depth of the element in which white space is left alone, 0 for none. */
        private int preserved;

        Indent(boolean declaration) {
            afterEnd = declaration;
        }

        void beforeStart() throws XPathException {
            if (afterStart || afterEnd) {
                line();
            } else {
                release();
            }
        }

        /** A start tag, whose depth counts already. Gives the column of further attributes where they do not fit the line. */
        int start(NamespaceMap namespaces, NamespaceMap outer, AttributeMap attributes, NodeName name) {
            if (preserved == 0 && attributes.size() > 0) {
                String space = attributes.getValue(NamespaceUri.XML, "space");
                if (space != null && space.trim().equals("preserve")) {
                    preserved = depth;
                }
            }
            sameLine = true;
            afterStart = true;
            afterEnd = false;
            lines = 0;
            if (preserved != 0 || length(namespaces, outer, attributes) <= LINE) {
                return -1;
            }
            return (depth - 1) * STEP + 2 + name.getDisplayName().length();
        }

        private int length(NamespaceMap namespaces, NamespaceMap outer, AttributeMap attributes) {
            int length = 0;
            if (namespaces != outer) {
                if (!outer.getDefaultNamespace().isEmpty() && namespaces.getDefaultNamespace().isEmpty()) {
                    length += 9;
                }
                String[] prefixes = namespaces.getPrefixArray();
                NamespaceUri[] uris = namespaces.getURIsAsArray();
                for (int i = 0; i < prefixes.length; i++) {
                    if (!uris[i].equals(outer.getNamespaceUri(prefixes[i]))) {
                        int prefix = prefixes[i].isEmpty() ? 9 : prefixes[i].length() + 10;
                        length += prefix + uris[i].toString().length();
                    }
                }
            }
            for (AttributeInfo attribute : attributes) {
                NodeName name = attribute.getNodeName();
                int prefix = name.getPrefix().isEmpty() ? 4 : name.getPrefix().length() + 5;
                length += name.getLocalPart().length() + attribute.getValue().length() + 4 + prefix;
            }
            return length;
        }

        /** An end tag, whose depth counts no more. */
        void beforeEnd() throws XPathException {
            if (afterEnd && !sameLine) {
                line();
            } else {
                release();
            }
        }

        void end() {
            sameLine = false;
            afterEnd = true;
            afterStart = false;
            lines = 0;
            if (depth == preserved - 1) {
                preserved = 0;
            }
        }

        void beforeOther() throws XPathException {
            if (afterEnd) {
                line();
            } else {
                release();
            }
        }

        /** True: it is kept for later. */
        boolean holds(UnicodeString chars, int properties) throws XPathException {
            release();
            if (preserved == 0 && Whitespace.isAllWhite(chars)) {
                held = chars;
                heldProperties = properties;
                return true;
            }
            long end = chars.length();
            for (long i = 0; i < end; i++) {
                if (chars.codePointAt(i) == '\n') {
                    sameLine = false;
                    lines++;
                    columns = 0;
                }
                columns++;
            }
            afterStart = false;
            afterEnd = false;
            return false;
        }

        private void line() throws XPathException {
            if (preserved != 0) {
                release();
                return;
            }
            held = null;
            int spaces = depth * STEP;
            if (lines > 0) {
                spaces -= columns;
                if (spaces <= 0) {
                    return;
                }
            }
            begin();
            if (lines == 0) {
                out.byteOf('\n');
            }
            out.writeRepeatedAscii((byte) ' ', spaces);
            sameLine = false;
        }

        private void release() throws XPathException {
            if (held != null) {
                UnicodeString chars = held;
                held = null;
                text(chars, heldProperties);
            }
        }
    }
}
