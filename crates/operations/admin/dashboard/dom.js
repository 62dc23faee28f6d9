// Elements, tables, dialogs and notices: what all pages are made of. Nothing here knows the API.

// Makes an element. `on` in the attributes is a map of listeners; children may be texts, elements, lists, or nothing.
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value === true) {
      element.setAttribute(key, '');
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value);
    }
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  const some = children.flat(9).filter((child) => child !== null && child !== undefined && child !== false);
  return some.map((child) => (child instanceof Node ? child : String(child)));
}

export function replace(element, ...children) {
  element.replaceChildren(...flat(children));
}

// A button. While its work is under way it takes no second click, and an error becomes a notice.
export function button(text, work, attributes = {}) {
  const element = h('button', { type: 'button', ...attributes }, text);
  element.addEventListener('click', async () => {
    if (element.getAttribute('aria-busy') === 'true') return;
    element.setAttribute('aria-busy', 'true');
    try {
      await work(element);
    } catch (error) {
      notice(error.message, 'bad');
    } finally {
      element.removeAttribute('aria-busy');
    }
  });
  return element;
}

let fields = 0;

// A control with its label.
export function field(label, control, hint) {
  fields += 1;
  control.id ||= `field-${fields}`;
  const explained = hint && h('span', { class: 'hint', id: `${control.id}-hint` }, hint);
  if (explained) control.setAttribute('aria-describedby', explained.id);
  return h('div', { class: 'field' }, h('label', { for: control.id }, label), control, explained);
}

// Tells what happened, for some seconds and to screen readers.
export function notice(text, kind = 'good') {
  const list = document.getElementById('notices');
  const item = h('p', { class: `notice ${kind}` }, text);
  list.append(item);
  while (list.children.length > 4) list.firstChild.remove();
  setTimeout(() => item.remove(), kind === 'bad' ? 12000 : 5000);
}

// Asks before something that cannot be undone. Resolves to true if the operator agrees.
export function agreed(question, action) {
  return new Promise((resolve) => {
    const dialog = h('dialog', { 'aria-labelledby': 'question' },
      h('p', { id: 'question' }, question),
      h('form', { method: 'dialog', class: 'row' },
        h('button', { value: 'no', autofocus: true }, 'Cancel'),
        h('button', { value: 'yes', class: 'danger' }, action)));
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A state as a coloured word: the word says it too, for those who see no colours.
export function badge(text, kind) {
  return h('span', { class: `badge ${kind}` }, text);
}

// A table whose rows keep their elements while their content stays, so that focus and selection survive a refresh.
//
// A column has `title`, `text(row)`, and maybe `node(row)`, `number`, `long`, `sort(row)` and `sign(row)`, which changes when the node has to.
export function table({ caption, columns, key, empty = 'None.', sorted = null, filter = false }) {
  const body = h('tbody');
  const heads = columns.map((column, at) => head(column, at));
  const element = h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, heads)), body);
  const none = h('p', { class: 'empty', hidden: true }, empty);
  const known = new Map();
  let rows = [];
  let order = sorted;
  let wanted = '';

  function head(column, at) {
    const scope = { scope: 'col', class: column.number ? 'number' : null };
    if (!column.title) return h('th', scope, h('span', { class: 'unseen' }, 'Actions'));
    if (!column.sort && !column.number) return h('th', scope, column.title);
    const click = () => {
      const is_same = order && order.at === at;
      order = { at, down: is_same ? !order.down : Boolean(column.number) };
      draw();
    };
    return h('th', scope, h('button', { type: 'button', class: 'sort', on: { click } }, column.title));
  }

  function draw() {
    heads.forEach((cell, at) => {
      const is_order = order && order.at === at;
      if (is_order) cell.setAttribute('aria-sort', order.down ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    });
    let shown = rows;
    if (wanted) {
      shown = shown.filter((row) => columns.some((column) => column.text(row).toLowerCase().includes(wanted)));
    }
    if (order) shown = inOrder(shown, columns[order.at], order.down);
    const seen = new Set();
    let place = body.firstChild;
    for (const row of shown) {
      const name = String(key(row));
      seen.add(name);
      const line = known.get(name) || made(name);
      fill(line, row);
      if (line.element === place) place = place.nextSibling;
      else body.insertBefore(line.element, place);
    }
    for (const [name, line] of known) {
      if (!seen.has(name)) {
        line.element.remove();
        known.delete(name);
      }
    }
    none.hidden = shown.length > 0;
    element.hidden = shown.length === 0;
  }

  function made(name) {
    const cells = columns.map((column) => h('td', { class: column.number ? 'number' : column.long ? 'long' : null, 'data-title': column.title || null }));
    const line = { element: h('tr', {}, cells), cells, signs: [] };
    known.set(name, line);
    return line;
  }

  function fill(line, row) {
    columns.forEach((column, at) => {
      const sign = column.sign ? column.sign(row) : column.text(row);
      if (line.signs[at] === sign) return;
      line.signs[at] = sign;
      replace(line.cells[at], column.node ? column.node(row) : column.text(row));
    });
  }

  const input = filter && h('input', { type: 'search', 'aria-label': `Filter: ${caption}`, on: { input: () => { wanted = input.value.trim().toLowerCase(); draw(); } } });
  const scroll = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, element, none);
  return {
    element: h('div', { class: 'table' }, input && field('Filter', input), scroll),
    update(next) {
      rows = next;
      draw();
    },
  };
}

function inOrder(rows, column, down) {
  const of = column.sort || column.text;
  const sorted = rows.slice().sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    return typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
  });
  return down ? sorted.reverse() : sorted;
}

// Names and values.
export function facts(pairs) {
  const some = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return h('dl', { class: 'facts' }, some.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

export function section(title, ...children) {
  return h('section', {}, h('h2', {}, title), children);
}
