<?php

declare(strict_types=1);

namespace Cinch;

/** The envelope names a dictionary that nobody has. */
final class DictionaryMissing extends EnvelopeException
{
}
