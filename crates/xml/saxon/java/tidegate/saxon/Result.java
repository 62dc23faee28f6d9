package tidegate.saxon;

import net.sf.saxon.event.PipelineConfiguration;
import net.sf.saxon.event.SequenceReceiver;
import net.sf.saxon.om.Item;
import net.sf.saxon.s9api.Location;
import net.sf.saxon.trans.XPathException;

/** A result that is written here: what all methods have in common. */
abstract class Result extends SequenceReceiver {
    final Output out;

    Result(PipelineConfiguration pipe, Output out) {
        super(pipe);
        this.out = out;
    }

    @Override
    public void open() { }

    @Override
    public void startDocument(int properties) {
        previousAtomic = false;
    }

    @Override
    public void endDocument() {
        previousAtomic = false;
    }

    @Override
    public void append(Item item, Location location, int properties) throws XPathException {
        decompose(item, location, properties);
    }

    @Override
    protected String getErrorCodeForDecomposingFunctionItems() {
        return "SENR0001";
    }
}
