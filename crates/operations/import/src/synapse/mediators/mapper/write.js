// Writes XML: `root$` is the title of the output schema, `uris$` has its namespaces by prefix.
function write$(made) {
  const out = [], open = [], lists = [];
  let latest = null, isBegun = false;
  const fail = (what) => { throw new Error(what); };
  const decoded = (name) => name.replaceAll('_EnC0DeCHaRHyPh3n_', '-');
  const escaped = (text) => text.replace(/[&<>"\t\n\r]/g, (c) => `&#${c.charCodeAt(0)};`);
  const checked = (name) => /^[^\s<>&"'\/=]+$/.test(name) ? name : fail(`${name} is not a name of XML`);
  // The text of a number in Java.
  const number = (value) => {
    const size = Math.abs(value);
    if (Object.is(value, -0)) return '-0.0';
    if (value === (value | 0) || !Number.isFinite(value)) return String(value);
    const plain = (text) => text.includes('.') ? text : text + '.0';
    if (size >= 1e-3 && size < 1e7) return plain(String(value));
    const [digits, exponent] = value.toExponential().split('e');
    return `${plain(digits)}E${Number(exponent)}`;
  };
  const text = (value) => {
    if (typeof value === 'string') return value;
    if (typeof value === 'boolean') return String(value);
    return typeof value === 'number' ? number(value) : fail('a value of the mapping must be a text, a number or a boolean');
  };
  const close = () => { if (isBegun) out.push('>'); isBegun = false; };
  const characters = (said) => { close(); out.push(escaped(said)); };
  const start = (written) => {
    close();
    const name = decoded(written ?? fail('the mapping returns a list')), prefix = name.split('_')[0];
    const local = Object.hasOwn(uris$, prefix) && name.startsWith(prefix + '_') ? name.slice(prefix.length + 1) : name;
    const tag = checked(Object.hasOwn(uris$, prefix) && prefix ? `${prefix}:${local}` : local);
    out.push('<' + tag);
    open.push(tag);
    isBegun = true;
  };
  const end = () => {
    const tag = open.pop() ?? fail('the mapping ends its root too early');
    close();
    out.push(`</${tag}>`);
  };
  const attribute = (name, said) => {
    if (!isBegun) fail(`the attribute ${name} is written after its element`);
    const own = name.replace('attr_', ''), parts = own.split('_');
    const isPrefixed = parts.length > 1 && parts[0] && Object.hasOwn(uris$, parts[0]);
    out.push(` ${checked(isPrefixed ? `${parts[0]}:${parts[parts.length - 1]}` : own)}="${escaped(said)}"`);
  };
  const field = (written, value) => {
    if (value === null || value === undefined) return;
    const name = decoded(written), said = text(value);
    if (name.includes('attr_')) return attribute(name, said);
    if (name === '_ELEMVAL') return characters(said);
    if (name !== latest) start(name);
    characters(said);
    end();
  };
  // Attributes come first, and `xATTR` before `x`.
  const ordered = (keys) => {
    const left = new Set(keys), first = [], then = [];
    const take = (...all) => { for (const key of all) left.delete(key); return all; };
    for (const key of keys) {
      if (!left.has(key)) continue;
      if (key.includes('attr_')) first.push(...take(key));
      else if (key.endsWith('ATTR')) then.push(...take(key, key.slice(0, -4)));
      else if (left.has(key + 'ATTR')) then.push(...take(key + 'ATTR', key));
      else then.push(...take(key));
    }
    return [...first, ...then];
  };
  const item = (value, at, last) => {
    if (at > 0) start(lists[lists.length - 1]);
    if (typeof value === 'object' && value !== null) traverse(value); else characters(text(value));
    if (at < last) end();
  };
  const member = (key, value) => {
    if (typeof value !== 'object' || value === null) return field(key, value);
    const isParent = key.endsWith('ATTR');
    latest = decoded(isParent ? key.slice(0, -4) : key);
    start(latest);
    traverse(value);
    if (!isParent) end();
  };
  const traverse = (map) => {
    const keys = Object.keys(map), isList = keys.every((key) => /^\d+$/.test(key));
    if (isList) lists.push(latest);
    ordered(keys).forEach((key, at) => isList ? item(map[key], at, keys.length - 1) : member(key, map[key]));
    if (isList) lists.pop();
  };
  if (typeof made !== 'object' || made === null) fail('the mapping returns no object');
  start(root$);
  for (const [prefix, uri] of Object.entries(uris$)) out.push(` xmlns${prefix && ':' + prefix}="${escaped(uri)}"`);
  traverse(made);
  end();
  return out.join('');
}
