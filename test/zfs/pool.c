/*
 * pool FILE DIRECTORY RECORDSIZE ASHIFT SETTING...
 *
 * Makes a pool of ZFS in a file, in user space: libzpool is the whole of ZFS without the
 * kernel. For each setting (lz4, zstd-3, gzip-6, off) it makes a dataset and writes the
 * regular files below the directory to it as a ZFS filesystem would, one object each, and
 * prints one line:
 *
 *	SETTING files bytes logical physical compressratio
 *
 * logical and physical are of the blocks of data, as block pointers say: holes in neither,
 * embedded blocks in the first only. compressratio is what `zfs get` would print times
 * 100: of all bytes of the dataset, its metadata included.
 */
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dmu_traverse.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/fs/zfs.h>
#include <sys/txg.h>
#include <sys/zio_compress.h>
#include <ftw.h>
#include <libnvpair.h>
#include <zfeature_common.h>

#define	POOL "cinch"
#define	STEP (16 << 20)	/* the largest recordsize: each write is whole records */

static objset_t *os;
static uint64_t recordsize, files, bytes, logical, physical;
static char *buf;

static void
die(const char *what, int err)
{
	fprintf(stderr, "pool: %s: %s\n", what, strerror(err));
	exit(1);
}

static void
create(const char *path, int ashift)
{
	nvlist_t *file = fnvlist_alloc(), *root = fnvlist_alloc(), *props = fnvlist_alloc();
	const nvlist_t *children[1] = { file };
	fnvlist_add_string(file, ZPOOL_CONFIG_TYPE, VDEV_TYPE_FILE);
	fnvlist_add_string(file, ZPOOL_CONFIG_PATH, path);
	fnvlist_add_uint64(file, ZPOOL_CONFIG_ASHIFT, ashift);
	fnvlist_add_uint64(file, ZPOOL_CONFIG_IS_LOG, 0);
	fnvlist_add_string(root, ZPOOL_CONFIG_TYPE, VDEV_TYPE_ROOT);
	fnvlist_add_nvlist_array(root, ZPOOL_CONFIG_CHILDREN, children, 1);
	for (int i = 0; i < SPA_FEATURES; i++) {
		char name[256];
		snprintf(name, sizeof (name), "feature@%s", spa_feature_table[i].fi_uname);
		fnvlist_add_uint64(props, name, 0);
	}
	int err = spa_create(POOL, root, props, NULL, NULL);
	if (err != 0)
		die("spa_create", err);
}

/* property is the value of compression=TEXT. */
static uint64_t
property(const char *text)
{
	uint64_t value;
	if (zfs_prop_string_to_index(ZFS_PROP_COMPRESSION, text, &value) != 0) {
		fprintf(stderr, "pool: no such compression: %s\n", text);
		exit(1);
	}
	return (value);
}

static int
put(const char *path, const struct stat64 *st, int type, struct FTW *ftw)
{
	if (type != FTW_F || !S_ISREG(st->st_mode) || st->st_size == 0)
		return (0);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		die(path, errno);
	uint64_t size = st->st_size;
	int block = size < recordsize ? (int)P2ROUNDUP(size, 512) : (int)recordsize;
	dmu_tx_t *tx = dmu_tx_create(os);
	dmu_tx_hold_bonus(tx, DMU_NEW_OBJECT);
	int err = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (err != 0)
		die("dmu_tx_assign", err);
	uint64_t object = dmu_object_alloc(os, DMU_OT_PLAIN_FILE_CONTENTS, block, DMU_OT_NONE, 0, tx);
	dmu_tx_commit(tx);
	for (uint64_t at = 0; at < size; ) {
		ssize_t n = pread64(fd, buf, MIN(STEP, size - at), at);
		if (n <= 0)
			die(path, n < 0 ? errno : EIO);
		tx = dmu_tx_create(os);
		dmu_tx_hold_write(tx, object, at, n);
		if ((err = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0)
			die("dmu_tx_assign", err);
		dmu_write(os, object, at, n, buf, tx);
		dmu_tx_commit(tx);
		at += n;
	}
	close(fd);
	files++;
	bytes += size;
	return (0);
}

static int
count(spa_t *spa, zilog_t *zilog, const blkptr_t *bp, const zbookmark_phys_t *zb,
    const struct dnode_phys *dnp, void *arg)
{
	if (bp == NULL || zb->zb_level != 0 || zb->zb_object == 0 || BP_IS_HOLE(bp) ||
	    BP_GET_TYPE(bp) != DMU_OT_PLAIN_FILE_CONTENTS)
		return (0);
	logical += BP_GET_LSIZE(bp);
	physical += BP_IS_EMBEDDED(bp) ? 0 : BP_GET_PSIZE(bp);
	return (0);
}

static uint64_t
compressratio(void)
{
	nvlist_t *all = fnvlist_alloc();
	dsl_pool_config_enter(dmu_objset_pool(os), FTAG);
	dmu_objset_stats(os, all);
	dsl_pool_config_exit(dmu_objset_pool(os), FTAG);
	nvlist_t *one = fnvlist_lookup_nvlist(all, zfs_prop_to_name(ZFS_PROP_COMPRESSRATIO));
	uint64_t value = fnvlist_lookup_uint64(one, ZPROP_VALUE);
	fnvlist_free(all);
	return (value);
}

static void
measure(const char *setting, const char *directory)
{
	char name[256];
	snprintf(name, sizeof (name), POOL "/%s", setting);
	files = bytes = logical = physical = 0;
	int err = dmu_objset_create(name, DMU_OST_OTHER, 0, NULL, NULL, NULL);
	if (err != 0)
		die("dmu_objset_create", err);
	if ((err = dsl_prop_set_int(name, "compression", ZPROP_SRC_LOCAL, property(setting))) != 0)
		die("compression", err);
	if ((err = dmu_objset_own(name, DMU_OST_OTHER, B_FALSE, B_FALSE, FTAG, &os)) != 0)
		die("dmu_objset_own", err);
	if (nftw64(directory, put, 64, FTW_PHYS | FTW_MOUNT) != 0)
		die(directory, errno);
	txg_wait_synced(dmu_objset_pool(os), 0);
	dsl_dataset_t *ds = dmu_objset_ds(os);
	if ((err = traverse_dataset(ds, 0, TRAVERSE_PRE, count, NULL)) != 0)
		die("traverse_dataset", err);
	printf("%s %llu %llu %llu %llu %llu\n", setting, (u_longlong_t)files, (u_longlong_t)bytes,
	    (u_longlong_t)logical, (u_longlong_t)physical, (u_longlong_t)compressratio());
	fflush(stdout);
	dmu_objset_disown(os, B_FALSE, FTAG);
	if ((err = dsl_destroy_head(name)) != 0)
		die("dsl_destroy_head", err);
}

int
main(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "pool FILE DIRECTORY RECORDSIZE ASHIFT SETTING...\n");
		return (2);
	}
	recordsize = strtoull(argv[3], NULL, 10);
	buf = malloc(STEP);
	kernel_init(SPA_MODE_READ | SPA_MODE_WRITE);
	create(argv[1], atoi(argv[4]));
	for (int i = 5; i < argc; i++)
		measure(argv[i], argv[2]);
	spa_destroy(POOL);
	kernel_fini();
	return (0);
}
