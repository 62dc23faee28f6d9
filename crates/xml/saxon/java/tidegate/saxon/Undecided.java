package tidegate.saxon;

import net.sf.saxon.event.ProxyReceiver;
import net.sf.saxon.event.Receiver;
import net.sf.saxon.om.AttributeMap;
import net.sf.saxon.om.Item;
import net.sf.saxon.om.NamespaceMap;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.om.NodeName;
import net.sf.saxon.s9api.Location;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.trans.XPathException;
import net.sf.saxon.type.SchemaType;

/**
 * A result whose method nobody said: XML where it begins with an element that is no HTML, which is what services answer. All
 * else is for Saxon to decide.
 */
final class Undecided extends ProxyReceiver {
    private final Saxons saxons;
    private boolean decided;
    private int documents;

    interface Saxons {
        Receiver make() throws XPathException;
    }

    Undecided(Markup markup, Saxons saxons) {
        super(markup);
        this.saxons = saxons;
    }

    private void saxonDecides() throws XPathException {
        if (!decided) {
            decided = true;
            Receiver other = saxons.make();
            setUnderlyingReceiver(other);
            other.open();
            for (; documents > 0; documents--) {
                other.startDocument(0);
            }
        }
    }

    @Override
    public void startDocument(int properties) throws XPathException {
        documents++;
        super.startDocument(properties);
    }

    @Override
    public void endDocument() throws XPathException {
        saxonDecides();
        super.endDocument();
    }

    @Override
    public void startElement(NodeName name, SchemaType type, AttributeMap attributes, NamespaceMap namespaces,
            Location location, int properties) throws XPathException {
        if (!decided) {
            boolean html = name.getLocalPart().equalsIgnoreCase("html")
                    && (name.hasURI(NamespaceUri.NULL) || name.hasURI(NamespaceUri.XHTML));
            if (html) {
                saxonDecides();
            }
            decided = true;
        }
        super.startElement(name, type, attributes, namespaces, location, properties);
    }

    @Override
    public void characters(UnicodeString chars, Location location, int properties) throws XPathException {
        saxonDecides();
        super.characters(chars, location, properties);
    }

    @Override
    public void processingInstruction(String target, UnicodeString data, Location location, int properties)
            throws XPathException {
        saxonDecides();
        super.processingInstruction(target, data, location, properties);
    }

    @Override
    public void comment(UnicodeString chars, Location location, int properties) throws XPathException {
        saxonDecides();
        super.comment(chars, location, properties);
    }

    @Override
    public void append(Item item, Location location, int properties) throws XPathException {
        saxonDecides();
        getNextReceiver().append(item, location, properties);
    }

    @Override
    public void close() throws XPathException {
        saxonDecides();
        super.close();
    }
}
