// Redis's globs on bytes, as stringmatchlen in its util.c has them.

/**
 * A function that tells whether bytes match. Every pattern means something, as in Redis: a class that is not closed
 * runs to the end.
 *
 * What stands between stars is an expression for so many bytes. The first place where one matches is as good as any later
 * one, so nothing is tried twice, and no pattern takes long.
 */
export function compileGlob(pattern) {
  const text = Buffer.from(pattern).toString('latin1'); // a character a byte
  const pieces = [{ source: '', length: 0 }];
  for (let i = 0; i < text.length; ) {
    const [source, end] = next(text, i);
    i = end;
    if (source === STAR) {
      pieces.push({ source: '', length: 0 });
      continue;
    }
    pieces.at(-1).source += source;
    pieces.at(-1).length++;
  }
  if (pieces.length === 1) {
    const whole = new RegExp(`^${pieces[0].source}$`, 's');
    return (bytes) => whole.test(bytes.toString('latin1'));
  }
  const [first, last] = [pieces.shift(), pieces.pop()];
  const begins = new RegExp(first.source, 'sy');
  const ends = new RegExp(last.source, 'sy');
  const between = pieces.map(({ source }) => new RegExp(source, 'sg'));
  return (bytes) => {
    const value = bytes.toString('latin1');
    let at = behind(begins, value, 0);
    for (const piece of between) if (at >= 0) at = behind(piece, value, at);
    const end = value.length - last.length;
    return at >= 0 && at <= end && behind(ends, value, end) >= 0;
  };
}

/** Where the first match from there on ends, or -1. */
function behind(expression, value, from) {
  expression.lastIndex = from;
  return expression.test(value) ? expression.lastIndex : -1;
}

const STAR = '*';

/** The expression for what begins at i, and where the rest begins. */
function next(text, i) {
  const c = text[i];
  if (c === '*') return [STAR, i + 1];
  if (c === '?') return ['.', i + 1];
  if (c === '[') return characterClass(text, i + 1);
  if (c === '\\' && i + 1 < text.length) return [literal(text.charCodeAt(i + 1)), i + 2];
  return [literal(text.charCodeAt(i)), i + 1];
}

const literal = (code) => `\\x${code.toString(16).padStart(2, '0')}`;

function characterClass(text, i) {
  const negated = text[i] === '^';
  if (negated) i++;
  const pieces = [];
  while (i < text.length && text[i] !== ']') {
    const [piece, end] = member(text, i);
    pieces.push(piece);
    i = end;
  }
  return [`[${negated ? '^' : ''}${pieces.join('')}]`, i + 1];
}

function member(text, i) {
  const code = (at) => text.charCodeAt(at);
  if (text[i] === '\\' && i + 1 < text.length) return [literal(code(i + 1)), i + 2];
  if (text[i + 1] !== '-' || i + 2 >= text.length) return [literal(code(i)), i + 1];
  const [low, high] = [code(i), code(i + 2)].sort((a, b) => a - b);
  return [`${literal(low)}-${literal(high)}`, i + 3];
}
