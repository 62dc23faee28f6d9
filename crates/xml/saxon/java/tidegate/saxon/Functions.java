package tidegate.saxon;

import net.sf.saxon.Configuration;
import net.sf.saxon.functions.registry.BuiltInFunctionSet;
import net.sf.saxon.functions.registry.XSLT30FunctionSet;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.pattern.AnyNodeTest;
import net.sf.saxon.type.AnyItemType;
import net.sf.saxon.type.BuiltInAtomicType;

/** The functions of XSLT 3.0, of which the two that every JSON message takes are ours: they do the same, with less on the way. */
final class Functions extends BuiltInFunctionSet {
    private static final Functions ALL = new Functions();

    private Functions() {
        importFunctionSet(XSLT30FunctionSet.getInstance());
        register("json-to-xml", 1, entry -> entry.populate(FromJson::new, AnyItemType.getInstance(), OPT, LATE | NEW)
                .arg(0, BuiltInAtomicType.STRING, OPT, null));
        register("xml-to-json", 1, entry -> entry.populate(ToJson::new, BuiltInAtomicType.STRING, OPT, LATE)
                .arg(0, AnyNodeTest.getInstance(), OPT | ABS, EMPTY));
    }

    @Override
    public NamespaceUri getNamespace() {
        return NamespaceUri.FN;
    }

    @Override
    public String getConventionalPrefix() {
        return "fn";
    }

    /** A Saxon that has them. */
    static final class Having extends Configuration {
        @Override
        public BuiltInFunctionSet getXSLTFunctionSet(int version) {
            return version == 30 || version == 31 || version == 305 ? ALL : super.getXSLTFunctionSet(version);
        }
    }
}
