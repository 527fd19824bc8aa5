package clients

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// javaClasses returns a class path with the libraries of pom.xml and the compiled program.
func javaClasses(t *testing.T) string {
	t.Helper()
	const pom = "java/pom.xml"
	sources, err := filepath.Glob("java/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no Java sources: %v", err)
	}
	libraries := testenv.JavaLibraries(t, pom)
	classes := testenv.Cached(t, "java-classes", append(sources, pom), func(dir string) {
		args := []string{"-encoding", "UTF-8", "-cp", libraries, "-d", dir}
		testenv.Run(t, "", testenv.Program(t, "javac"), append(args, sources...)...)
	})
	return classes + string(os.PathListSeparator) + libraries
}
