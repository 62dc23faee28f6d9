package tidegate.saxon;

import net.sf.saxon.event.PipelineConfiguration;
import net.sf.saxon.om.AttributeMap;
import net.sf.saxon.om.NamespaceMap;
import net.sf.saxon.om.NodeName;
import net.sf.saxon.s9api.Location;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.type.SchemaType;

/** A result of the method `text`: the characters of it. */
final class Plain extends Result {
    Plain(PipelineConfiguration pipe, Output out) {
        super(pipe, out);
    }

    @Override
    public void close() { }

    @Override
    public void startElement(NodeName name, SchemaType type, AttributeMap attributes, NamespaceMap namespaces,
            Location location, int properties) {
        previousAtomic = false;
    }

    @Override
    public void endElement() {
        previousAtomic = false;
    }

    @Override
    public void characters(UnicodeString chars, Location location, int properties) {
        out.write(chars);
        previousAtomic = false;
    }

    @Override
    public void processingInstruction(String target, UnicodeString data, Location location, int properties) {
        previousAtomic = false;
    }

    @Override
    public void comment(UnicodeString chars, Location location, int properties) {
        previousAtomic = false;
    }
}
