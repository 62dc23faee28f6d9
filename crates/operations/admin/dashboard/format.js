// Numbers and times as people read them.

export function count(number) {
  return number.toLocaleString('en', { maximumFractionDigits: 0 });
}

// A number with its noun.
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function rate(number) {
  if (number === 0) return '0';
  return number.toLocaleString('en', { maximumFractionDigits: number < 10 ? 2 : 0 });
}

export function percent(part, whole) {
  if (!whole) return '0 %';
  const share = (100 * part) / whole;
  return `${share.toLocaleString('en', { maximumFractionDigits: share < 1 ? 2 : 1 })} %`;
}

export function millis(number) {
  if (number === null || number === undefined) return '';
  if (number >= 10000) return `${(number / 1000).toLocaleString('en', { maximumFractionDigits: 1 })} s`;
  return `${number.toLocaleString('en', { maximumFractionDigits: number < 10 ? 2 : 0 })} ms`;
}

export function bytes(number) {
  if (number === null || number === undefined) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (number >= 1024 && at + 1 < units.length) {
    number /= 1024;
    at += 1;
  }
  return `${number.toLocaleString('en', { maximumFractionDigits: number < 10 && at > 0 ? 1 : 0 })} ${units[at]}`;
}

// A time of day, with the date if it is not today's.
export function time(text) {
  if (!text) return '';
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return String(text);
  const clock = date.toLocaleTimeString('en-GB');
  return date.toDateString() === new Date().toDateString() ? clock : `${date.toISOString().slice(0, 10)} ${clock}`;
}

export function sum(numbers) {
  return numbers.reduce((all, number) => all + number, 0);
}
