export const DEFAULT_MAX_RAW: number;
export class Dictionary {
  constructor(content: Uint8Array);
  readonly content: Buffer;
  readonly number: number;
}
export interface Header {
  codec: number;
  /** 0: none */
  dictionary: number;
  rawLen: number;
  /** of the header */
  length: number;
}
export function dictionaryNumber(content: Uint8Array): number;
export function isSealed(stored: Uint8Array): boolean;
export function parseHeader(stored: Uint8Array): Header;
export function openValue(stored: Uint8Array, dictionaries?: Map<number, Uint8Array | Dictionary>, maxRaw?: number): Buffer;
export interface SealOptions {
  level?: number;
  dictionary?: Dictionary;
  worth?: (raw: number, sealed: number) => boolean;
  maxRaw?: number;
}
export function sealValue(value: Uint8Array, options?: SealOptions): Buffer;
export function fetchDictionary(send: (args: string[]) => Promise<unknown>, number: number): Promise<Dictionary>;
/** refresh is in milliseconds. */
export function attach<Client>(client: Client, options?: { refresh?: number; maxRaw?: number }): Promise<Client>;

export class CinchError extends Error {}
export class EnvelopeError extends CinchError {
  stored?: Buffer;
}
export class Damaged extends EnvelopeError {}
export class UnknownCodec extends EnvelopeError {}
export class DictionaryMissing extends EnvelopeError {}
export class DictionaryUnavailable extends EnvelopeError {}
export class TooLarge extends EnvelopeError {}
export class Refused extends CinchError {}
