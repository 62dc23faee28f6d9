package tidegate.saxon;

import net.sf.saxon.event.PipelineConfiguration;
import net.sf.saxon.event.Receiver;
import net.sf.saxon.s9api.AbstractDestination;
import net.sf.saxon.s9api.SaxonApiException;
import net.sf.saxon.serialize.SerializationProperties;
import net.sf.saxon.serialize.UnicodeWriterResult;
import net.sf.saxon.trans.XPathException;

/**
 * Where one result goes. Setting up Saxon's own serializer takes longer than a small message takes to write, so that usual
 * results are written here; what it would write is what is written.
 */
final class Printer extends AbstractDestination {
    private final Output out;
    private final Form form;
    private final Names names;

    Printer(Output out, Form form, Names names) {
        this.out = out;
        this.form = form;
        this.names = names;
    }

    @Override
    public Receiver getReceiver(PipelineConfiguration pipe, SerializationProperties asked) throws SaxonApiException {
        // Others come with `xsl:result-document` that writes here.
        Form.Writer writer = asked.getProperties() == form.asked ? form.writer : Form.Writer.SAXON;
        switch (writer) {
            case XML:
                return new Markup(pipe, out, form, names);
            case UNDECIDED:
                return new Undecided(new Markup(pipe, out, form, names), () -> saxons(pipe, asked));
            case TEXT:
                return new Plain(pipe, out);
            default:
                try {
                    return saxons(pipe, asked);
                } catch (XPathException error) {
                    throw new SaxonApiException(error);
                }
        }
    }

    private Receiver saxons(PipelineConfiguration pipe, SerializationProperties asked) throws XPathException {
        SerializationProperties all = form.ours.combineWith(asked);
        return pipe.getConfiguration().getSerializerFactory().getReceiver(new UnicodeWriterResult(out, null), all, pipe);
    }

    @Override
    public void close() { }
}
