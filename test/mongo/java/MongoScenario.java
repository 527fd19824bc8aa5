import com.mongodb.MongoException;
import com.mongodb.WriteConcern;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.gridfs.GridFSBuckets;
import com.mongodb.client.model.Aggregates;
import com.mongodb.client.model.Accumulators;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Sorts;
import com.mongodb.client.model.Updates;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bson.Document;

/** Runs the shared scenario against the URI that is given. Prints ok when every answer is right. */
public class MongoScenario {
    static void check(boolean right, String what) {
        if (!right) throw new AssertionError(what);
    }

    public static void main(String[] args) throws Exception {
        try (MongoClient client = MongoClients.create(args[0])) {
            MongoDatabase db = client.getDatabase("scenario_java");
            db.drop();
            MongoCollection<Document> things = db.getCollection("things");
            List<Document> documents = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                documents.add(new Document("_id", i).append("text", "document number " + i + " of a scenario").append("n", i * 3));
            }
            things.insertMany(documents);
            check(things.find().batchSize(100).sort(Sorts.ascending("_id")).into(new ArrayList<>()).equals(documents), "documents differ");
            check(things.updateMany(new Document(), Updates.inc("n", 1)).getModifiedCount() == 300, "update");
            check(things.find(Filters.eq("_id", 7)).first().getInteger("n") == 22, "find one");
            int sum = things.aggregate(List.of(Aggregates.group(null, Accumulators.sum("sum", "$n")))).first().getInteger("sum");
            check(sum == 300 * 299 / 2 * 3 + 300, "sum " + sum);
            try (var stream = things.watch().cursor(); ClientSession session = client.startSession()) {
                session.withTransaction(() -> things.insertOne(session, new Document("_id", "in a transaction")));
                check(stream.next().getDocumentKey().getString("_id").getValue().equals("in a transaction"), "change");
            }
            String large = "a large value ".repeat(400_000);
            things.insertOne(new Document("_id", "large").append("v", large));
            check(things.find(Filters.eq("_id", "large")).first().getString("v").equals(large), "large");
            things.withWriteConcern(WriteConcern.UNACKNOWLEDGED).insertOne(new Document("_id", "silent"));
            byte[] content = new byte[1 << 20];
            Arrays.fill(content, (byte) 'x');
            var bucket = GridFSBuckets.create(db);
            var id = bucket.uploadFromStream("file", new ByteArrayInputStream(content));
            var back = new ByteArrayOutputStream();
            bucket.downloadToStream(id, back);
            check(Arrays.equals(back.toByteArray(), content), "file");
            db.runCommand(new Document("ping", 1));
            try {
                things.find(new Document("$nonsense", 1)).first();
                throw new AssertionError("no error came");
            } catch (MongoException expected) {
                // the server's
            }
            for (int i = 0; i < 50 && things.countDocuments() < 303; i++) Thread.sleep(20);
            check(things.countDocuments() == 303, "count");
        }
        System.out.println("ok");
    }
}
