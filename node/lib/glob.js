// Redis's globs on bytes, as stringmatchlen in its util.c has them.

/**
 * A function that tells whether bytes match. Every pattern means something, as in Redis: a class that is not closed
 * runs to the end.
 */
export function compileGlob(pattern) {
  const text = Buffer.from(pattern).toString('latin1'); // a character a byte
  let source = '';
  for (let i = 0; i < text.length; ) {
    const [piece, end] = next(text, i);
    if (piece !== '.*' || !source.endsWith('.*') || source.endsWith('\\.*')) source += piece;
    i = end;
  }
  const expression = new RegExp(`^${source}$`, 's');
  return (bytes) => expression.test(bytes.toString('latin1'));
}

/** The expression for what begins at i, and where the rest begins. */
function next(text, i) {
  const c = text[i];
  if (c === '*') return ['.*', i + 1];
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
