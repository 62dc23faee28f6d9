// Reads XML by the input schema: `schema$` has its elements, `prefixes$` its prefixes by namespace, and with `xsi$` one is that of xsi.
function parse$(markup) {
  const named = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };
  const plain = (text) => text.replace(/&(#x?)?(\w+);/g, (_, number, name) =>
    number ? String.fromCodePoint(parseInt(name, number === '#' ? 10 : 16)) : named[name]);
  const token = /<!--[^]*?-->|<\?[^]*?\?>|<!\[CDATA\[([^]*?)\]\]>|<(\/?)([^\s\/>!?]+)((?:[^>"']+|"[^"]*"|'[^']*')*)>|([^<]+)/g;
  const scope = Object.assign(Object.create(null), { '': '', xml: 'http://www.w3.org/XML/1998/namespace' });
  const top = { children: [], text: '', scope }, open = [top];
  const split = (name) => name.includes(':') ? name.split(':') : ['', name];
  for (const [, data, isEnd, name, rest, text] of markup.matchAll(token)) {
    const parent = open[open.length - 1];
    if (isEnd) open.pop();
    else if (name) {
      const element = { children: [], text: '', scope: Object.create(parent.scope), attributes: [] };
      for (const [, key, double, single] of rest.matchAll(/([^\s=\/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
        const [prefix, local] = split(key), value = plain(double ?? single);
        if (key === 'xmlns') element.scope[''] = value;
        else if (prefix === 'xmlns') element.scope[local] = value;
        else element.attributes.push({ prefix, local, value });
      }
      for (const one of element.attributes) one.uri = one.prefix && element.scope[one.prefix];
      [element.prefix, element.local] = split(name);
      element.uri = element.scope[element.prefix];
      parent.children.push(element);
      if (!rest.endsWith('/')) open.push(element);
    } else parent.text += data ?? (text === undefined ? '' : plain(text));
  }
  return top.children[0];
}

function read$(markup) {
  const XSI = 'http://www.w3.org/2001/XMLSchema-instance';
  const own = (all, name) => Object.hasOwn(all, name) ? all[name] : undefined;
  const named = ({ uri, local }) => (own(prefixes$, uri) ? prefixes$[uri] + ':' : '') + local;
  const field = (name) => name.replaceAll(':', '_').replaceAll('-', '_EnC0DeCHaRHyPh3n_');
  const typed = (type, text, name) => {
    if (type === 'boolean') return text.toLowerCase() === 'true';
    if (type !== 'number' && type !== 'integer') return text;
    const form = type === 'integer' ? /^[+-]?\d+$/ : /^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/;
    if (!form.test(text)) throw new Error(`${name} is not a valid ${type}`);
    return Number(text);
  };
  const xsi = (element, local) =>
    xsi$ ? element.attributes.find((one) => one.uri === XSI && one.local === local)?.value : undefined;
  const inside = (element, known, into) => {
    for (const one of element.attributes) {
      if (one.local.includes('xmlns')) continue;
      const type = own(known, (one.prefix ? one.prefix + ':' : '') + one.local)?.type;
      if (!into) throw new Error(`an element of a list of texts has the attribute ${one.local}`);
      into['attr_' + field(named(one))] = typed(type, one.value, one.local);
    }
    if (xsi(element, 'nil')?.toLowerCase() === 'true') return;
    let before = null;
    for (const child of element.children) before = walk(child, known, into, before);
  };
  const walk = (element, known, into, before) => {
    const name = named(element), schema = xsi(element, 'type') === undefined ? own(known, name) : undefined;
    if (!schema || !into) throw new Error(`the input schema does not have ${name} at its place`);
    const { type, text, isList, children } = schema, isObject = type === 'object', key = field(name);
    const value = isObject ? {} : typed(type, element.text, name);
    if (isList) {
      if (before !== name) into[key] = [];
      into[key].push(value);
    } else if (type !== 'null') into[key] = value;
    if (isObject && text) value._ELEMVAL = typed(text, element.text, name);
    inside(element, children, isObject ? value : isList ? null : into);
    return isList ? name : null;
  };
  const root = typeof markup === 'string' ? parse$(markup) : undefined, made = {};
  if (!root) throw new Error('the mapping takes XML');
  if (named(root) !== title$) throw new Error(`the message is ${named(root)} and not ${title$}`);
  inside(root, schema$, made);
  return made;
}
