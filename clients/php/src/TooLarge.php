<?php

declare(strict_types=1);

namespace Cinch;

/** The declared length is over the limit. */
final class TooLarge extends EnvelopeException
{
}
