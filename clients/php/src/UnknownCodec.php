<?php

declare(strict_types=1);

namespace Cinch;

/** Sealed by a newer version, with a codec that this reader lacks. */
final class UnknownCodec extends EnvelopeException
{
}
