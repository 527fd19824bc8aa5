<?php

declare(strict_types=1);

namespace Cinch;

/** Something that begins with the magic could not be opened. */
class EnvelopeException extends \RuntimeException
{
}
