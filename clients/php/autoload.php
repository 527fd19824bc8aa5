<?php
// For programs without Composer.

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/src/' . substr($class, strlen('Cinch\\')) . '.php';
    if (str_starts_with($class, 'Cinch\\') && is_file($file)) {
        require $file;
    }
});
require_once __DIR__ . '/src/open_value.php';
